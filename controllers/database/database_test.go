package database

import (
	"context"
	"errors"
	"testing"

	"github.com/weft-network/weft/pkg/ovn/nbdb"
	"github.com/weft-network/weft/pkg/ovndb"
	"github.com/weft-network/weft/pkg/ovndb/northbound"
	"github.com/weft-network/weft/pkg/unit"
)

// A start applies nothing before the pods' addresses are restored, or the wait for them is over. Earlier units would
// be applied twice, and would delay a pod that waits for its first address.
func TestNothingIsAppliedBeforeTheBeginning(t *testing.T) {
	d := New(nil, func() {})
	d.Engine = ovndb.NewEngine(ovndb.Config{Schema: northbound.Schema()}, nil)
	u := unit.Unit{Key: unit.NewKey("node", "n1"),
		Rows: []unit.Row{{Model: &nbdb.LogicalSwitch{UUID: unit.UUID(nbdb.LogicalSwitchTable, "n1"), Name: "n1"}}}}
	ended, end := context.WithCancel(t.Context())
	end()
	if err := d.Apply(ended, u); !errors.Is(err, context.Canceled) || d.Wanted(u.Key) {
		t.Errorf("before: %v, and the unit is wanted: %t", err, d.Wanted(u.Key))
	}
	d.Begin()
	if err := d.Apply(t.Context(), u); !ovndb.IsPending(err) || !d.Wanted(u.Key) { // without a database
		t.Errorf("after: %v, and the unit is wanted: %t", err, d.Wanted(u.Key))
	}
}
