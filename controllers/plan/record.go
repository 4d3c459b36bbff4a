package plan

import (
	"context"
	"errors"
	"slices"

	"github.com/weft-network/weft/pkg/ovn/nbdb"
	"github.com/weft-network/weft/pkg/ovndb"
	"github.com/weft-network/weft/pkg/unit"
)

// recorder is the database of a plan's reconcilers. It records units and applies none.
type recorder struct {
	units  map[unit.Key]unit.Unit
	has    func(table, column string) bool
	before func(unit.Key) (rows []unit.Row, known bool) // returns the rows of a unit that the plan has not reached
	unit   func(unit.Key) unit.Unit                     // returns such a unit
}

func newRecorder() *recorder { return &recorder{units: map[unit.Key]unit.Unit{}} }

// Apply records the unit.
func (r *recorder) Apply(_ context.Context, u unit.Unit) error {
	r.units[u.Key] = u
	return nil
}

// Unit returns the planned unit, or the current one.
func (r *recorder) Unit(key unit.Key) unit.Unit {
	if u, ok := r.units[key]; ok {
		return u
	}
	return r.unit(key)
}

// Join records units with more memberships.
func (r *recorder) Join(keys []unit.Key, members func(unit.Unit) []unit.Membership) {
	for _, key := range keys {
		u := r.Unit(key)
		had := u.Members
		for _, m := range members(u) {
			if !slices.Contains(had, m) {
				u.Members = append(slices.Clip(u.Members), m)
			}
		}
		if len(u.Members) > len(had) {
			r.units[key] = u
		}
	}
}

// Regroup records units with more memberships, and with fewer.
func (r *recorder) Regroup(changes []unit.Regrouping) {
	for _, c := range changes {
		r.Join(c.Join, c.Members)
		for _, key := range c.Leave {
			u := r.Unit(key)
			kept := slices.DeleteFunc(slices.Clone(u.Members), func(m unit.Membership) bool {
				return m.Optional && slices.Contains(c.Rows, m.Parent)
			})
			if len(kept) < len(u.Members) {
				u.Members = kept
				r.units[key] = u
			}
		}
	}
}

// End records empty units. The memberships in their rows are optional, so the end of the rows is the whole change.
func (r *recorder) End(keys []unit.Key, _ []unit.Ref) {
	for _, key := range keys {
		r.units[key] = unit.Unit{Key: key}
	}
}

// ApplyAll records the units.
func (r *recorder) ApplyAll(ctx context.Context, units ...unit.Unit) error {
	for _, u := range units {
		_ = r.Apply(ctx, u) // it has no errors
	}
	return nil
}

// Retry does nothing, because a plan refuses no unit.
func (*recorder) Retry(context.Context, unit.Key) error { return nil }

// RowsOf returns the planned rows of a unit, or its current rows.
func (r *recorder) RowsOf(key unit.Key) (rows []unit.Row, known bool) {
	if u, ok := r.units[key]; ok {
		return u.Rows, true
	}
	return r.before(key)
}

// Wanted is true, because a plan is one change without an order of units.
func (*recorder) Wanted(unit.Key) bool { return true }

// Elements is not called, because a plan's resolver has the addresses already.
func (*recorder) Elements(context.Context, string, string, string) ([]string, error) {
	return nil, errors.New("a plan reads no sets")
}

// Connected is true, because a plan requires a database.
func (*recorder) Connected() bool { return true }

// Has reports whether the server has an optional column.
func (r *recorder) Has(table, column string) bool { return r.has(table, column) }

// Wait returns at once, because the database is connected.
func (*recorder) Wait(context.Context, func() (bool, error)) error { return nil }

// Refused is nil, because a plan requires our own database.
func (*recorder) Refused() error { return nil }

// Failure is nil, because the database is connected.
func (*recorder) Failure() error { return nil }

// Drifts is empty, because a plan has no foreign changes.
func (*recorder) Drifts() ovndb.DriftReport { return ovndb.DriftReport{} }

// ReportOnly does nothing.
func (*recorder) ReportOnly(bool) {}

// Owners returns none, because a plan sweeps no rows.
func (*recorder) Owners() (map[unit.Key]int, bool) { return nil, false }

// Ports fails, because a plan starts from an allocator that has the ports.
func (*recorder) Ports(context.Context) ([]*nbdb.LogicalSwitchPort, error) {
	return nil, errors.New("a plan reads no ports")
}

// Watched returns none, because a plan judges no routers.
func (*recorder) Watched() []*nbdb.BFD { return nil }
