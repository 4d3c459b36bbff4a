package ovndb_test

import (
	"errors"
	"testing"

	"github.com/weft-network/weft/pkg/ovndb"
	"github.com/weft-network/weft/pkg/ovndb/ovndbtest"
)

// A unit and the unit whose row it needs are one transaction if the latter comes first. In the other order the first
// one waits, and both exist in the end.
func TestAUnitComesWithItsParent(t *testing.T) {
	for order, want := range map[string]int{"parent first": 1, "parent last": 2} {
		t.Run(order, func(t *testing.T) {
			nb := ovndbtest.Start(t, "ovn-nb")
			e := run(t, nb)
			before := e.counter.count()
			first, last := switchUnit("n1", 10), portUnit("n1", "p1", "u1", 16)
			if order == "parent last" {
				first, last = last, first
			}
			if err := e.ApplyAll(t.Context(), first, last); err != nil {
				t.Fatal(err)
			}
			e.await(t, "port p1", func() bool { return ports(nb, "n1") == "p1" })
			e.apply(t, portUnit("n1", "p1", "u1", 16)) // the transaction that brings the port is settled now
			if got := e.counter.count() - before; got != want {
				t.Errorf("%d transactions, want %d", got, want)
			}
			if report := e.Drifts(); report.Total != 0 {
				t.Errorf("reported as drift: %+v", report)
			}
		})
	}
}

// A unit whose parent is refused waits for the parent, and is not refused with it.
func TestAUnitWaitsForARefusedParent(t *testing.T) {
	nb := ovndbtest.Start(t, "ovn-nb")
	nb.Ctl("ls-add", "other", "--", "lsp-add", "other", "p1")
	e := run(t, nb)
	taken := switchUnit("n1", 10)
	taken.Rows = append(taken.Rows, portUnit("n1", "p1", "u1", 16).Rows...)
	taken.Members = portUnit("n1", "p1", "u1", 16).Members
	err := e.ApplyAll(t.Context(), taken, portUnit("n1", "p2", "u2", 17))
	var refused *ovndb.RejectedError
	if !errors.As(err, &refused) || refused.Unit != taken.Key {
		t.Fatalf("%v, want the refusal of %s", err, taken.Key)
	}
	if err := e.try(portUnit("n1", "p2", "u2", 17)); !ovndb.IsPending(err) {
		t.Fatalf("the port of the refused switch: %v, want it pending", err)
	}
	nb.Ctl("ls-del", "other")
	e.await(t, "both ports", func() bool { return ports(nb, "n1") == "p1 p2" || ports(nb, "n1") == "p2 p1" })
}
