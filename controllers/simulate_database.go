package controllers

import (
	"context"
	"errors"

	"github.com/weft-network/weft/pkg/nbdb"
	"github.com/weft-network/weft/pkg/ovndb"
	"github.com/weft-network/weft/pkg/unit"
)

// recorder is a database for reconcilers that plan: it notes units and applies none.
type recorder struct {
	units  map[unit.Key]unit.Unit
	has    func(table, column string) bool
	before func(unit.Key) []unit.Row // the rows of a unit that the plan has not come to
}

func newRecorder() *recorder { return &recorder{units: map[unit.Key]unit.Unit{}} }

// Apply notes the unit.
func (r *recorder) Apply(_ context.Context, u unit.Unit) error {
	r.units[u.Key] = u
	return nil
}

// RowsOf are what the plan wants of a unit, or what there is before it.
func (r *recorder) RowsOf(key unit.Key) []unit.Row {
	if u, ok := r.units[key]; ok {
		return u.Rows
	}
	return r.before(key)
}

// Connected is true: without a database there is no plan.
// Wanted: in a plan, which is one change, it does not matter what comes first.
func (*recorder) Wanted(unit.Key) bool { return true }

// Elements is not asked for: what is in the database is known.
func (*recorder) Elements(context.Context, string, string, string) ([]string, error) {
	return nil, errors.New("a plan reads no sets")
}

func (*recorder) Connected() bool { return true }

// Has reports what the server has.
func (r *recorder) Has(table, column string) bool { return r.has(table, column) }

// Wait does not: whatever is waited for is there.
func (*recorder) Wait(context.Context, func() (bool, error)) error { return nil }

// Refused is nil: a plan is made for our own database only.
func (*recorder) Refused() error { return nil }

// Drifts has none to tell: a plan is no news about the past.
func (*recorder) Drifts() ovndb.DriftReport { return ovndb.DriftReport{} }

// ReportOnly leaves the engine as it is.
func (*recorder) ReportOnly(bool) {}

// Ports fails: a plan starts from an allocator that knows the ports.
func (*recorder) Ports(context.Context) ([]*nbdb.LogicalSwitchPort, error) {
	return nil, errors.New("a plan reads no ports")
}
