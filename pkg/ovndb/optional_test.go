package ovndb_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/weft-network/weft/pkg/nbdb"
	"github.com/weft-network/weft/pkg/ovndb/ovndbtest"
	"github.com/weft-network/weft/pkg/unit"
)

// A group comes with all its members, in one transaction, and goes without them: nobody waits for it, and its going is no damage to them.
func TestOptionalMembershipsComeAndGoWithTheirParent(t *testing.T) {
	nb := ovndbtest.Start(t, "ovn-nb")
	r := run(t, nb)
	r.apply(t, switchUnit("n1", 10))
	const ports = 5
	member := func(n int) unit.Unit {
		u := portUnit("n1", fmt.Sprintf("p%d", n), "uid", 16+n)
		u.Members = append(u.Members, inGroup(u))
		return u
	}
	for n := range ports {
		r.apply(t, member(n))
	}
	group := unit.Unit{Key: "group/g", Rows: []unit.Row{{Model: &nbdb.PortGroup{UUID: groupRef().UUID, Name: "g"}}}}
	in := func() int {
		return len(strings.Fields(nb.Ctl("--bare", "--columns=ports", "list", "Port_Group")))
	}
	for range 2 {
		before := r.counter.count()
		r.apply(t, group)
		if got := in(); got != ports {
			t.Errorf("%d ports are in the group, want %d", got, ports)
		}
		r.apply(t, member(ports)) // a port that comes later is in the group from the start
		if got := in(); got != ports+1 {
			t.Errorf("%d ports are in the group, want %d", got, ports+1)
		}
		r.apply(t, empty(member(ports)))
		if got := in(); got != ports {
			t.Errorf("%d ports are in the group, want %d", got, ports)
		}
		if got := r.counter.count() - before; got != 3 {
			t.Errorf("%d transactions, want 3: the group with all its ports, and one port that came and went", got)
		}
		r.apply(t, empty(group))
		for n := range ports {
			r.apply(t, member(n))
		}
		if got := r.counter.count() - before; got != 4 {
			t.Errorf("%d transactions after the group went, want 4", got)
		}
	}
	if got := r.Drifts(); got.Total != 0 {
		t.Errorf("told as drift: %+v", got)
	}
	r.apply(t, group)
	r.repairs(t, func() { nb.Ctl("destroy", "Port_Group", "g") }, func() bool { return in() == ports })
}
