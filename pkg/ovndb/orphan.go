package ovndb

import (
	"slices"

	"github.com/weft-network/weft/pkg/unit"
)

// dropWeakReferences removes weak references to rows that disappear with a row that the plan deletes, such as the ports of a
// switch. ovsdb-server does so by itself, except in rows that the same transaction changes (3.5), where the reference
// would stay for good. It must be the last step of a plan.
func (p *planner) dropWeakReferences() {
	for _, deleted := range slices.Clone(p.plan.Deletes) {
		p.owner = deleted.Owner
		for _, row := range p.below(deleted.Ref) {
			if !p.deleted[row] && !p.isKept(row) {
				p.dropReferences(row)
			}
		}
	}
}

// below lists the rows that a row holds now, or would hold after this plan.
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

// isKept reports whether a row has no weak references, or is still held by another row after this plan.
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

// dropReferences removes the weak references to a row, including references that the plan would add.
func (p *planner) dropReferences(row string) {
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
