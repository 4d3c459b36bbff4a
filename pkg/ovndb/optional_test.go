package ovndb_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/weft-network/weft/pkg/ovn/nbdb"
	"github.com/weft-network/weft/pkg/ovndb"
	"github.com/weft-network/weft/pkg/ovndb/ovndbtest"
	"github.com/weft-network/weft/pkg/unit"
)

// A group appears with all its members in one transaction and disappears together with its memberships. Its members
// neither wait for it nor count its removal as damage.
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
		r.apply(t, member(ports)) // a port that is added later is in the group from the start
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
		t.Errorf("reported as drift: %+v", got)
	}
	r.apply(t, group)
	r.repairs(t, func() { nb.Ctl("destroy", "Port_Group", "g") }, func() bool { return in() == ports })
}

// The server keeps a translation only while a router has it. With an optional router, the translation comes and goes
// with the router, in the router's transaction, and its absence is never repaired by a write that the server undoes.
func TestARowComesAndGoesWithItsOptionalParent(t *testing.T) {
	nb := ovndbtest.Start(t, "ovn-nb")
	r := run(t, nb)
	router := unit.Ref{Table: nbdb.LogicalRouterTable, UUID: unit.UUID(nbdb.LogicalRouterTable, "gr")}
	gateway := unit.Unit{Key: "gateway/n1", Rows: []unit.Row{{Model: &nbdb.LogicalRouter{UUID: router.UUID, Name: "gr"}}}}
	r.apply(t, switchUnit("n1", 10))
	pod := portUnit("n1", "p", "uid", 16)
	nat := &nbdb.NAT{
		UUID: unit.UUID(nbdb.NATTable, "192.0.2.5"), Type: nbdb.NATTypeDNATAndSNAT,
		ExternalIP: "192.0.2.5", LogicalIP: "10.0.0.3",
	}
	pod.Rows = append(pod.Rows, unit.Row{Model: nat})
	pod.Members = append(pod.Members, unit.Membership{Parent: router, Column: "nat", Element: nat.UUID, Optional: true})
	translations := func() string { return strings.TrimSpace(nb.Ctl("--bare", "--columns=nat", "list", "Logical_Router")) }
	r.apply(t, pod)
	for range 2 {
		before := r.counter.count()
		r.apply(t, pod)
		if got := r.counter.count() - before; got != 0 {
			t.Errorf("%d transactions for a translation without a router, want none", got)
		}
		r.apply(t, gateway)
		if got := translations(); got != nat.UUID {
			t.Errorf("the router has the translations %q, want %s", got, nat.UUID)
		}
		r.apply(t, pod)
		if got := r.counter.count() - before; got != 1 {
			t.Errorf("%d transactions, want 1: the router with its translation", got)
		}
		r.apply(t, empty(gateway))
	}
	if got := r.Drifts(); got.Total != 0 {
		t.Errorf("reported as drift: %+v", got)
	}
	r.apply(t, gateway)
	r.repairs(t, func() { nb.Ctl("destroy", "Logical_Router", "gr") }, func() bool { return translations() == nat.UUID })
	r.repairs(t, func() { nb.Ctl("clear", "Logical_Router", "gr", "nat") }, func() bool { return translations() == nat.UUID })
	r.apply(t, empty(pod))
	if got := translations(); got != "" {
		t.Errorf("the router has the translations %q of no pod", got)
	}
}

// A port is deleted with its switch. In a group that the same transaction changes, ovsdb-server would leave the
// reference to the port.
func TestNothingStaysOfAPortThatEndsWithItsSwitch(t *testing.T) {
	t.Parallel()
	nb := ovndbtest.Start(t, "ovn-nb")
	r := runWith(t, quick(nb.Endpoint()))
	port := portUnit("n1", "p1", "u", 16)
	port.Members = append(port.Members, inGroup(port))
	group := unit.Unit{Key: "group/g", Rows: []unit.Row{{Model: &nbdb.PortGroup{UUID: groupRef().UUID, Name: "g"}}}}
	for _, u := range []unit.Unit{switchUnit("n1", 10), switchUnit("n2", 11), group, port} {
		r.settle(t, u)
	}
	acl := unit.UUID(nbdb.ACLTable, "a")
	group.Rows = append(group.Rows, unit.Row{Model: &nbdb.ACL{UUID: acl, Action: nbdb.ACLActionDrop,
		Direction: nbdb.ACLDirectionFromLport, Match: "ip4", Priority: 1}})
	group.Members = append(group.Members, unit.Membership{Parent: groupRef(), Column: "acls", Element: acl})
	nb.Stop()
	// The first unit is in flight already. The others share the first transaction of the next session.
	for _, u := range []unit.Unit{switchUnit("n3", 12), group, empty(switchUnit("n1", 10))} {
		if err := r.try(u); !ovndb.IsPending(err) {
			t.Fatalf("from a frozen server: %v, want it pending", err)
		}
	}
	nb.Continue()
	r.await(t, "the switch to go", func() bool {
		return strings.TrimSpace(nb.Ctl("--bare", "--columns=name", "find", "Logical_Switch", "name=n1")) == ""
	})
	if got := strings.TrimSpace(nb.Ctl("--bare", "--columns=ports", "list", "Port_Group", "g")); got != "" {
		t.Errorf("the group has %s, of which there is no row", got)
	}
	if got := strings.TrimSpace(nb.Ctl("--bare", "--columns=acls", "list", "Port_Group", "g")); got != acl {
		t.Errorf("the group's ACLs are %q", got)
	}
}
