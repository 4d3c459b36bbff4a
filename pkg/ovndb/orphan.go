package ovndb

import (
	"slices"

	"github.com/weft-network/weft/pkg/unit"
)

// letGo takes rows that end with a row that the plan deletes, as the ports of a switch do, out of the weak references to them. ovsdb-server
// does so by itself, but not in rows that the same transaction changes (3.5): there the reference would stay for good. It comes last.
func (p *planner) letGo() {
	for _, deleted := range slices.Clone(p.plan.Deletes) {
		p.owner = deleted.Owner
		for _, row := range p.below(deleted.Ref) {
			if !p.deleted[row] && !p.isKept(row) {
				p.forget(row)
			}
		}
	}
}

// below lists what a row holds, or would hold by this plan.
func (p *planner) below(ref unit.Ref) (rows []string) {
	for _, name := range p.schema.Tables[ref.Table].Shared {
		rows = append(rows, p.actual.elements(slot{ref, name})...)
	}
	for _, add := range p.plan.Adds {
		if add.Parent == ref {
			rows = append(rows, add.Element)
		}
	}
	return rows
}

func (p *planner) isWeak(s slot) bool {
	return slices.Contains(p.schema.Tables[s.parent.Table].Weak, s.column)
}

// isKept reports whether a row has no weak references, or something else that keeps it once this is done.
func (p *planner) isKept(row string) bool {
	weak := false
	for _, s := range p.actual.holders(row) {
		switch removed := slices.ContainsFunc(p.plan.Removes, func(e Element) bool { return memberOf(e.Membership) == member{s, row} }); {
		case p.isWeak(s):
			weak = true
		case !removed && !p.deleted[s.parent.UUID]:
			return true
		}
	}
	for _, add := range p.plan.Adds {
		switch {
		case add.Element != row:
		case p.isWeak(slot{add.Parent, add.Column}):
			weak = true
		case !p.deleted[add.Parent.UUID]:
			return true
		}
	}
	return !weak
}

// forget removes the weak references to a row, those too that the plan would add.
func (p *planner) forget(row string) {
	p.plan.Adds = slices.DeleteFunc(p.plan.Adds, func(e Element) bool {
		dropped := e.Element == row && p.isWeak(slot{e.Parent, e.Column})
		if dropped {
			delete(p.touched, memberOf(e.Membership))
		}
		return dropped
	})
	for _, s := range p.actual.holders(row) {
		if p.isWeak(s) {
			p.remove(member{s, row})
		}
	}
}
