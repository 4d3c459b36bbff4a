package controllers

import (
	"context"
	"errors"
	"testing"

	"github.com/weft-network/weft/pkg/nbdb"
	"github.com/weft-network/weft/pkg/ovndb"
	"github.com/weft-network/weft/pkg/ovndb/northbound"
	"github.com/weft-network/weft/pkg/unit"
)

// A start applies nothing before the pods' addresses are known, or the wait for them is over: what came before would be done twice, and a pod that
// waits for its first address would wait for it.
func TestNothingIsAppliedBeforeTheBeginning(t *testing.T) {
	begun := make(chan struct{})
	d := &database{Engine: ovndb.NewEngine(ovndb.Config{Schema: northbound.Schema()}, nil), begun: begun}
	u := unit.Unit{Key: unit.NewKey("node", "n1"), Rows: []unit.Row{{Model: &nbdb.LogicalSwitch{UUID: unit.UUID(nbdb.LogicalSwitchTable, "n1"), Name: "n1"}}}}
	ended, end := context.WithCancel(t.Context())
	end()
	if err := d.Apply(ended, u); !errors.Is(err, context.Canceled) || d.Wanted(u.Key) {
		t.Errorf("before: %v, and the unit is wanted: %t", err, d.Wanted(u.Key))
	}
	close(begun)
	if err := d.Apply(t.Context(), u); !ovndb.IsPending(err) || !d.Wanted(u.Key) { // there is no database
		t.Errorf("after: %v, and the unit is wanted: %t", err, d.Wanted(u.Key))
	}
}
