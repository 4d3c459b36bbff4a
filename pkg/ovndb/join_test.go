package ovndb_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/weft-network/weft/pkg/ovn/nbdb"
	"github.com/weft-network/weft/pkg/ovndb"
	"github.com/weft-network/weft/pkg/ovndb/ovndbtest"
	"github.com/weft-network/weft/pkg/unit"
)

// joining is an engine with a switch and some ports, and a group that they may join.
type joining struct {
	*running
	nb    *ovndbtest.Server
	ports []unit.Unit
	group unit.Unit
}

func newJoining(t *testing.T) *joining {
	t.Helper()
	nb := ovndbtest.Start(t, "ovn-nb")
	j := &joining{running: run(t, nb), nb: nb,
		group: unit.Unit{Key: "group/g", Rows: []unit.Row{{Model: &nbdb.PortGroup{UUID: groupRef().UUID, Name: "g"}}}}}
	j.apply(t, switchUnit("n1", 10))
	for n := range 5 {
		j.ports = append(j.ports, portUnit("n1", fmt.Sprintf("p%d", n), "uid", 16+n))
		j.apply(t, j.ports[n])
	}
	return j
}

func (j *joining) join(ports ...unit.Unit) {
	var keys []unit.Key
	for _, u := range ports {
		keys = append(keys, u.Key)
	}
	j.Join(append(keys, "port/never/applied"), func(u unit.Unit) []unit.Membership { return []unit.Membership{inGroup(u)} })
}

func (j *joining) expect(t *testing.T, when string, ports, transactions int) {
	t.Helper()
	if got := len(strings.Fields(j.nb.Ctl("--bare", "--columns=ports", "list", "Port_Group"))); got != ports {
		t.Errorf("%s: %d ports are in the group, want %d", when, got, ports)
	}
	if got := j.counter.count(); got != transactions {
		t.Errorf("%s: %d transactions, want %d", when, got, transactions)
	}
	if got := j.counter.driftLog(); len(got) > 0 {
		t.Errorf("%s: reported as drift: %v", when, got)
	}
}

// A new group with all ports that have joined is one transaction, and so is its end. The units of the ports are not
// applied for it, and are the same when they are.
func TestAGroupWithAllThatJoined(t *testing.T) {
	j := newJoining(t)
	for range 2 {
		n := j.counter.count()
		j.join(j.ports...)
		j.apply(t, j.group)
		j.expect(t, "the group came", 5, n+1)
		j.join(j.ports...) // again
		for _, port := range j.ports {
			port.Members = append([]unit.Membership{inGroup(port)}, port.Members...) // in another order
			j.apply(t, port)
		}
		j.apply(t, j.group)
		j.expect(t, "applied again", 5, n+1)
		j.apply(t, empty(j.ports[0])) // a port that ends is not left in the group
		j.apply(t, j.ports[0])        // nor added when it is applied without the group
		j.expect(t, "a port was applied without the group", 4, n+3)
		j.End([]unit.Key{j.group.Key}, []unit.Ref{groupRef()})
		if err := j.Retry(t.Context(), j.group.Key); err != nil {
			t.Error(err)
		}
		j.expect(t, "the group went", 0, n+4)
		for _, port := range j.ports {
			if got := len(j.Unit(port.Key).Members); got != len(port.Members) {
				t.Errorf("%s has %d memberships after the group went, want %d", port.Key, got, len(port.Members))
			}
			j.apply(t, port)
		}
		j.expect(t, "applied again", 0, n+4)
	}
}

// Units that join a group that exists are in it when the group has been applied again.
func TestJoinsToAGroupThatExists(t *testing.T) {
	j := newJoining(t)
	j.apply(t, j.group)
	n := j.counter.count()
	j.join(j.ports[:3]...)
	j.apply(t, j.group)
	j.expect(t, "three joined", 3, n+1)
	j.End([]unit.Key{j.group.Key}, []unit.Ref{groupRef()}) // a policy goes, and another comes at once
	j.join(j.ports[2:]...)
	j.apply(t, j.group)
	if got := j.counter.count(); got > n+3 {
		t.Errorf("%d transactions, want at most 2: the end of the group, and the group", got-n-1)
	}
	j.expect(t, "others joined", 3, j.counter.count())
	j.repairs(t, func() { j.nb.Ctl("destroy", "Port_Group", "g") }, func() bool {
		return len(strings.Fields(j.nb.Ctl("--bare", "--columns=ports", "list", "Port_Group"))) == 3
	})
}

// A unit may join while the insertion of the group is in flight, or while there is no connection. Neither is a foreign
// change.
func TestJoinsAtABadMoment(t *testing.T) {
	j := newJoining(t)
	n := j.counter.count()
	j.join(j.ports[0])
	j.counter.beforeSettling(func() { j.join(j.ports[1]) })
	j.apply(t, j.group)
	j.await(t, "the second port", func() bool { return j.counter.count() == n+2 })
	j.expect(t, "joined in flight", 2, n+2)
	j.nb.Kill()
	j.await(t, "the end of the connection", func() bool { return !j.Connected() })
	j.join(j.ports...)
	j.nb.Run()
	j.await(t, "the connection", j.Connected)
	j.settle(t, j.group)
	j.settle(t, switchUnit("n2", 11)) // all units were compared before
	j.await(t, "all ports", func() bool {
		return len(strings.Fields(j.nb.Ctl("--bare", "--columns=ports", "list", "Port_Group"))) == 5
	})
	if got := j.counter.driftLog(); len(got) > 0 {
		t.Errorf("reported as drift: %v", got)
	}
}

// A unit that joins a group may be compared in the transaction that adds it. The element that the group still lacks is
// no foreign change. A removal of the group is.
func TestAUnitIsComparedWhileItJoins(t *testing.T) {
	j := newJoining(t)
	j.apply(t, j.group)
	now, cancel := context.WithCancel(t.Context())
	cancel() // Retry must not wait for the outcome
	j.counter.beforeSettling(func() {
		j.join(j.ports[0])
		_ = j.Retry(now, j.ports[0].Key)
	})
	n := j.counter.count()
	j.apply(t, switchUnit("n2", 11))
	j.settle(t, j.group)
	j.expect(t, "compared while it joins", 1, n+2)
	j.nb.Ctl("destroy", "Port_Group", "g")
	j.await(t, "the report", func() bool { return len(j.counter.driftLog()) > 0 })
}

// A preview has the units as they are with what they joined.
func TestUnitHasWhatItJoined(t *testing.T) {
	j := newJoining(t)
	j.join(j.ports...)
	changes, err := j.Plan([]unit.Unit{j.group})
	if err != nil {
		t.Fatal(err)
	}
	adds := 0
	for _, c := range changes {
		if c.Op == ovndb.OpAdd {
			adds++
		}
	}
	if adds != len(j.ports) || !j.Unit("port/never/applied").Empty() {
		t.Errorf("the plan of the group adds %d ports, want %d", adds, len(j.ports))
	}
}
