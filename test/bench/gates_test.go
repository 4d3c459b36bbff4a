package bench

import (
	"context"
	"net/netip"
	"runtime"
	"testing"

	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/ovndb"
	"github.com/weft-network/weft/pkg/ovndb/ovndbtest"
	"github.com/weft-network/weft/pkg/topology"
	"github.com/weft-network/weft/pkg/unit"
)

// These tests need no clock: they count the cost of an event in a small cluster and in one ten times as large.

// small and large are the pods of the two clusters; measured is the number of events counted.
const small, large, measured = 200, 2000, 100

// gated returns an engine on a database with the given number of pods.
func gated(t *testing.T, pods int) (*ovndb.Engine, *ovndbtest.Server, *counter) {
	t.Helper()
	nb := ovndbtest.Start(t, "ovn-nb")
	c := &counter{}
	e := start(t, nb, c)
	apply(t, e, 1, func(int) unit.Unit {
		return topology.NetworkUnit(facts.Network{Join: []netip.Prefix{netip.MustParsePrefix("100.64.0.0/16")}})
	})
	apply(t, e, nodes/5, nodeUnit)
	apply(t, e, pods, gatedPod)
	c.take()
	return e, nb, c
}

// gatedPod returns podUnit on a fifth of the nodes.
func gatedPod(i int) unit.Unit { return podUnit(i/(nodes/5)*nodes + i%(nodes/5)) }

// one applies units one after the other and returns the cost of each.
func one(t *testing.T, e *ovndb.Engine, c *counter, unitOf func(int) unit.Unit) (transactions, allocations float64) {
	t.Helper()
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for i := range measured {
		u := unitOf(i)
		ctx := ovndb.WithCause(context.Background(), ovndb.Cause{Object: u.Key, Reconciler: u.Key.Kind()})
		if err := e.Apply(ctx, u); err != nil {
			t.Fatal(err)
		}
	}
	runtime.ReadMemStats(&after)
	return float64(c.take()) / measured, float64(after.Mallocs-before.Mallocs) / measured
}

// TestAnEventCostsTheSameInALargeCluster checks that a pod's addition, change or removal costs one transaction, and
// an unchanged pod none, with as many allocations as in a small cluster.
func TestAnEventCostsTheSameInALargeCluster(t *testing.T) {
	type cost struct{ transactions, allocations float64 }
	found := map[string]map[int]cost{}
	for _, pods := range []int{small, large} {
		e, _, c := gated(t, pods)
		for _, kind := range []struct {
			name   string
			unitOf func(int) unit.Unit
		}{
			{"add", func(i int) unit.Unit { return gatedPod(pods + i) }},
			{"same", func(i int) unit.Unit { return gatedPod(pods + i) }},
			{"delete", func(i int) unit.Unit { return unit.Unit{Key: gatedPod(pods + i).Key} }},
		} {
			transactions, allocations := one(t, e, c, kind.unitOf)
			if found[kind.name] == nil {
				found[kind.name] = map[int]cost{}
			}
			found[kind.name][pods] = cost{transactions, allocations}
			t.Logf("%6s beside %4d pods: %.2f transactions, %.0f allocations", kind.name, pods, transactions, allocations)
		}
	}
	for name, want := range map[string]cost{"add": {1, maxAddAllocations}, "same": {0, maxSameAllocations},
		"delete": {1, maxDeleteAllocations}} {
		less, more := found[name][small], found[name][large]
		if less.transactions != want.transactions || more.transactions != want.transactions {
			t.Errorf("%s: %.2f and %.2f transactions, want %.0f", name, less.transactions, more.transactions, want.transactions)
		}
		if more.allocations > want.allocations {
			t.Errorf("%s: %.0f allocations, at most %.0f are allowed", name, more.allocations, want.allocations)
		}
		if more.allocations > 1.2*less.allocations {
			t.Errorf("%s: %.0f allocations beside %d pods and %.0f beside %d: they grow with the cluster", name,
				less.allocations, small, more.allocations, large)
		}
	}
}

// TestASelectorCostsItsPods checks that a new selector, with its group and sets, costs one transaction and its end
// another, and that both allocate by the number of its pods and not by the size of the cluster.
func TestASelectorCostsItsPods(t *testing.T) {
	const selected = 100
	found := map[int]float64{}
	for _, pods := range []int{small, large} {
		e, _, c := gated(t, pods)
		selector := facts.AllPods()
		keys := []unit.Key{topology.PodGroupKey(selector), topology.PodSetKey(selector)}
		members := make([]unit.Key, selected)
		for i := range members {
			members[i] = gatedPod(i).Key
		}
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		const rounds = 20
		for range rounds {
			var rows []unit.Ref
			var units []unit.Unit
			for _, key := range keys {
				e.Join(members, topology.SelectedMembers(selector, key))
				units, rows = append(units, topology.SelectorUnit(key)), append(rows, topology.SelectedRows(key)...)
			}
			if err := e.ApplyAll(t.Context(), units...); err != nil {
				t.Fatal(err)
			}
			e.End(keys, rows)
			for _, key := range keys {
				if err := e.Retry(t.Context(), key); err != nil {
					t.Fatal(err)
				}
			}
		}
		runtime.ReadMemStats(&after)
		found[pods] = float64(after.Mallocs-before.Mallocs) / rounds / selected
		if n := c.take(); n != 2*rounds {
			t.Errorf("beside %d pods: %d transactions in %d rounds, want 2 for each", pods, n, rounds)
		}
		t.Logf("a selector of %d pods beside %d: %.1f allocations for each of its pods", selected, pods, found[pods])
	}
	if found[large] > maxSelectedAllocations {
		t.Errorf("%.1f allocations for each pod, at most %d are allowed", found[large], maxSelectedAllocations)
	}
	if found[large] > 1.2*found[small] {
		t.Errorf("%.1f allocations for each pod beside %d pods and %.1f beside %d: they grow with the cluster",
			found[small], small, found[large], large)
	}
}

// Bounds for the allocations of an event, including libovsdb's: a fifth above the values when this was written.
const (
	maxAddAllocations    = 655
	maxSameAllocations   = 165
	maxDeleteAllocations = 340
	// for each pod of a selector
	maxSelectedAllocations = 58
)

// TestARestartWritesNothing checks that a new engine with the same units writes nothing.
func TestARestartWritesNothing(t *testing.T) {
	_, nb, _ := gated(t, small)
	before := nb.Transactions()
	c := &counter{}
	e := start(t, nb, c)
	apply(t, e, 1, func(int) unit.Unit {
		return topology.NetworkUnit(facts.Network{Join: []netip.Prefix{netip.MustParsePrefix("100.64.0.0/16")}})
	})
	apply(t, e, nodes/5, nodeUnit)
	apply(t, e, small, gatedPod)
	e.Complete()
	if n := c.take(); n != 0 {
		t.Errorf("%d transactions", n)
	}
	if n := nb.Transactions() - before; n > 1 {
		t.Errorf("%d records in the database's log, want the fence's at most", n)
	}
}
