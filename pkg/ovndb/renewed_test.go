package ovndb_test

import (
	"context"
	"testing"

	"github.com/weft-network/weft/pkg/ovn/nbdb"
	"github.com/weft-network/weft/pkg/ovndb/ovndbtest"
	"github.com/weft-network/weft/pkg/unit"
)

// hangingUnit has a row of its own, which it adds to a row of a switch, as a gateway does with a node's variables.
func hangingUnit(ls, name string) unit.Unit {
	id := unit.UUID(nbdb.LoadBalancerGroupTable, name)
	return unit.Unit{
		Key:     unit.NewKey("gateway", name),
		Rows:    []unit.Row{{Model: &nbdb.LoadBalancerGroup{UUID: id, Name: name}}},
		Members: []unit.Membership{{Parent: switchRef(ls), Column: "load_balancer_group", Element: id}},
	}
}

// A row is deleted and made again, time after time, and a unit below it is applied again meanwhile, unchanged. It loses
// its elements with the row, and its own rows while it waits for the row. Nothing of that is foreign.
func TestWhatGoesWithARenewedRowIsNotForeign(t *testing.T) {
	t.Parallel()
	nb := ovndbtest.Start(t, "ovn-nb")
	e := run(t, nb)
	parent, below := switchUnit("n1", 10), hangingUnit("n1", "below")
	e.apply(t, parent)
	e.apply(t, below)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			_ = e.Apply(ctx, below)
		}
	}()
	for range 200 {
		e.apply(t, empty(parent))
		e.apply(t, parent)
	}
	stop()
	<-ended
	e.settle(t, below)
	if drifts := e.Drifts(); drifts.Total > 0 {
		t.Errorf("counted as foreign: %+v", drifts)
	}
	e.whole(t)
}
