package ovndb_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weft-network/weft/pkg/ovn/nbdb"
	"github.com/weft-network/weft/pkg/ovndb"
	"github.com/weft-network/weft/pkg/ovndb/ovndbtest"
	"github.com/weft-network/weft/pkg/unit"
)

// one returns the only difference that the engine reports.
func (r *running) one(t *testing.T) ovndb.Drift {
	t.Helper()
	report := r.Drifts()
	if report.Total != 1 || len(report.Latest) != 1 {
		t.Fatalf("differences reported: %+v, want one", report)
	}
	return report.Latest[0]
}

func portID(name, uid string) string { return unit.UUID(nbdb.LogicalSwitchPortTable, name+" "+uid) }

func TestRepairIsReported(t *testing.T) {
	nb := ovndbtest.Start(t, "ovn-nb")
	e := run(t, nb)
	e.apply(t, switchUnit("n1", 10))
	e.apply(t, portUnit("n1", "p1", "u1", 16))
	e.repairs(t, func() { nb.Ctl("lsp-set-addresses", "p1", "router") }, func() bool {
		p, ok := ovndb.Get[nbdb.LogicalSwitchPort](e.Conn, portID("p1", "u1"))
		return ok && len(p.Addresses) == 2
	})
	e.await(t, "the report", func() bool { return len(e.counter.driftLog()) == 1 })
	got := e.one(t)
	got.Since, got.Last = time.Time{}, time.Time{}
	want := ovndb.Drift{Owner: "pod/p1", Op: ovndb.OpUpdate, Table: "Logical_Switch_Port", UUID: portID("p1", "u1"), Name: "p1",
		Column: "addresses", Want: "a, b", Have: "router", State: ovndb.DriftRepaired, Count: 1}
	if got != want {
		t.Errorf("reported %+v\nwant %+v", got, want)
	}
}

// A unit that is applied again while its repair is in flight does not make the engine forget the repair.
func TestRepairOfAUnitThatIsAppliedAgainIsReported(t *testing.T) {
	nb := ovndbtest.Start(t, "ovn-nb")
	e := run(t, nb)
	e.apply(t, switchUnit("n1", 10))
	e.apply(t, portUnit("n1", "p1", "u1", 16))
	now, cancel := context.WithCancel(t.Context())
	cancel() // Apply must not wait for the outcome
	e.counter.beforeSettling(func() { _ = e.Apply(now, portUnit("n1", "p1", "u1", 16)) })
	nb.Ctl("lsp-set-addresses", "p1", "router")
	e.await(t, "the report", func() bool { return e.Drifts().Total == 1 })
	if got := e.one(t); got.Column != "addresses" || got.State != ovndb.DriftRepaired {
		t.Errorf("reported %+v", got)
	}
}

func TestDeletedRowIsReported(t *testing.T) {
	nb := ovndbtest.Start(t, "ovn-nb")
	e := run(t, nb)
	e.apply(t, switchUnit("n1", 10))
	e.apply(t, portUnit("n1", "p1", "u1", 16))
	e.repairs(t, func() { nb.Ctl("lsp-del", "p1") }, func() bool { return ports(nb, "n1") == "p1" })
	e.await(t, "the report", func() bool { return len(e.counter.driftLog()) > 0 })
	drift := e.Drifts().Latest
	if !slices.ContainsFunc(drift, func(d ovndb.Drift) bool {
		return d.Table == "Logical_Switch_Port" && d.Want == "present" && d.Have == "absent"
	}) {
		t.Errorf("reported %+v, want the absent port", drift)
	}
}

// A copy of a row with our name in its external_ids is a duplicate of ours.
func TestDoubleOfARowIsRemoved(t *testing.T) {
	nb := ovndbtest.Start(t, "ovn-nb")
	e := run(t, nb)
	e.apply(t, switchUnit("n1", 10))
	e.repairs(t, func() {
		nb.Ctl("ls-add", "n1-copy", "--", "set", "Logical_Switch", "n1-copy", "external_ids:weft.dev/unit=node/n1")
	},
		func() bool {
			return strings.TrimSpace(nb.Ctl("--bare", "--columns=name", "list", "Logical_Switch")) == "n1"
		})
	e.await(t, "the report", func() bool { return len(e.counter.driftLog()) == 1 })
	if d := e.one(t); d.Have != "present" || d.Want != "absent" || d.Name != "n1-copy" {
		t.Errorf("reported %+v, want the duplicate", d)
	}
}

func TestRowOfAnUnknownUnitIsStray(t *testing.T) {
	nb := ovndbtest.Start(t, "ovn-nb")
	strays := make(chan struct{}, 100)
	e := runWith(t, ovndb.Config{Endpoints: []string{nb.Endpoint()}, OnStray: func() { strays <- struct{}{} }})
	e.apply(t, switchUnit("n1", 10))
	nb.Ctl("ls-add", "lost", "--", "set", "Logical_Switch", "lost", "external_ids:weft.dev/unit=node/lost")
	select {
	case <-strays:
	case <-time.After(time.Minute):
		t.Fatal("no sweep was requested")
	}
}

// A port that is also added to a second switch would be ambiguous to northd.
func TestMisplacedElementIsRemoved(t *testing.T) {
	nb := ovndbtest.Start(t, "ovn-nb")
	e := runWith(t, ovndb.Config{Endpoints: []string{nb.Endpoint()}, Audit: 50 * time.Millisecond})
	e.apply(t, switchUnit("n1", 10))
	e.apply(t, switchUnit("n2", 11))
	e.apply(t, portUnit("n1", "p1", "u1", 16))
	e.repairs(t, func() {
		nb.Ctl("add", "Logical_Switch", "n2", "ports", portID("p1", "u1"))
	}, func() bool { return ports(nb, "n2") == "" })
	if got := ports(nb, "n1"); got != "p1" {
		t.Errorf("ports of n1 are %q", got)
	}
}

// A row that moves leaves its former place, also if that belongs to a unit that this process has not applied.
func TestMovedRowLeavesAKeptPlace(t *testing.T) {
	nb := ovndbtest.Start(t, "ovn-nb")
	before := run(t, nb)
	before.apply(t, switchUnit("n1", 10))
	before.apply(t, switchUnit("n2", 11))
	before.apply(t, portUnit("n1", "p1", "u1", 16))
	before.stop()
	e := run(t, nb)
	e.apply(t, switchUnit("n2", 11))
	e.apply(t, portUnit("n2", "p1", "u1", 16))
	if on1, on2 := ports(nb, "n1"), ports(nb, "n2"); on1 != "" || on2 != "p1" {
		t.Errorf("n1 has %q, n2 has %q", on1, on2)
	}
}

func TestNamesakeIsReportedAndLeftAlone(t *testing.T) {
	nb := ovndbtest.Start(t, "ovn-nb")
	e := run(t, nb)
	e.apply(t, switchUnit("n1", 10))
	id := strings.TrimSpace(nb.Ctl("create", "Logical_Switch", "name=n1"))
	e.await(t, "the report", func() bool { return e.Drifts().Standing == 1 })
	if d := e.one(t); d.State != ovndb.DriftCollision || d.UUID != id || d.Name != "n1" || d.Owner != "node/n1" {
		t.Errorf("reported %+v, want the collision with %s", d, id)
	}
	if got := nb.Ctl("--bare", "--columns=_uuid", "find", "Logical_Switch", "name=n1"); !strings.Contains(got, id) {
		t.Errorf("the foreign switch %s was touched: %s", id, got)
	}
	nb.Ctl("destroy", "Logical_Switch", id)
	e.await(t, "its end", func() bool { return e.Drifts().Standing == 0 })
}

// In a table whose names the server keeps unique, a foreign row blocks ours. The report names it.
func TestNameTakenByAForeignRowIsReported(t *testing.T) {
	nb := ovndbtest.Start(t, "ovn-nb")
	nb.Ctl("ls-add", "other", "--", "lsp-add", "other", "p1")
	e := run(t, nb)
	e.apply(t, switchUnit("n1", 10))
	if err := e.try(portUnit("n1", "p1", "u1", 16)); err == nil {
		t.Fatal("two ports of one name")
	}
	if d := e.one(t); d.State != ovndb.DriftCollision || d.Name != "p1" || d.Table != "Logical_Switch_Port" {
		t.Errorf("reported %+v, want the collision", d)
	}
	nb.Ctl("lsp-del", "p1") // the unit is not applied again: the removal of the foreign row is enough
	e.await(t, "the port", func() bool { return ports(nb, "n1") == "p1" && e.Drifts().Standing == 0 })
}

// A refused unit may also have rows whose names are optional, such as ACLs. They have no namesakes to report.
func TestNameOfAGroupWithACLsTakenByAForeignRowIsReported(t *testing.T) {
	nb := ovndbtest.Start(t, "ovn-nb")
	nb.Ctl("create", "Port_Group", "name=g")
	e := run(t, nb)
	acl := unit.UUID(nbdb.ACLTable, "g drop")
	group := unit.Unit{Key: "group/g", Rows: []unit.Row{
		{Model: &nbdb.PortGroup{UUID: groupRef().UUID, Name: "g", ACLs: []string{acl}}},
		{Model: &nbdb.ACL{UUID: acl, Action: nbdb.ACLActionDrop, Direction: nbdb.ACLDirectionToLport, Match: "outport == @g"}},
	}}
	if err := e.try(group); err == nil {
		t.Fatal("two groups of one name")
	}
	if d := e.one(t); d.State != ovndb.DriftCollision || d.Name != "g" || d.Table != "Port_Group" {
		t.Errorf("reported %+v, want the collision", d)
	}
}

func TestReportOnlyLeavesItUntilTheUnitChanges(t *testing.T) {
	nb := ovndbtest.Start(t, "ovn-nb")
	e := run(t, nb)
	e.ReportOnly(true)
	e.apply(t, switchUnit("n1", 10))
	e.apply(t, portUnit("n1", "p1", "u1", 16))
	before := e.counter.count()
	nb.Ctl("lsp-set-addresses", "p1", "router")
	e.await(t, "the report", func() bool { return e.Drifts().Standing == 1 })
	e.apply(t, portUnit("n1", "p1", "u1", 16)) // the same unit again
	if d := e.one(t); d.State != ovndb.DriftStanding || d.Count != 1 {
		t.Errorf("reported %+v, want it standing, once", d)
	}
	if got := e.counter.count(); got != before {
		t.Errorf("%d writes although it must only report", got-before)
	}
	changed := portUnit("n1", "p1", "u1", 17)
	e.apply(t, changed)
	if report := e.Drifts(); report.Standing != 0 {
		t.Errorf("after the unit changed: %+v", report)
	}
	nb.Ctl("lsp-set-addresses", "p1", "unknown")
	e.await(t, "the next", func() bool { return e.Drifts().Standing == 1 })
	e.repairs(t, func() { e.ReportOnly(false) }, func() bool { return e.Drifts().Standing == 0 })
	if d := e.Drifts().Latest[0]; d.State != ovndb.DriftRepaired {
		t.Errorf("reported %+v, want it repaired", d)
	}
}

// A program that reverts each repair at once must not keep both sides busy.
func TestFightIsSlowedDown(t *testing.T) {
	nb := ovndbtest.Start(t, "ovn-nb")
	e := run(t, nb)
	e.apply(t, switchUnit("n1", 10))
	start, began := e.counter.count(), time.Now()
	for i := range 8 {
		e.repairs(t, func() { nb.Ctl("set", "Logical_Switch", "n1", fmt.Sprintf("other_config:foe=%d", i)) }, func() bool {
			ls, ok := ovndb.Get[nbdb.LogicalSwitch](e.Conn, switchRef("n1").UUID)
			return ok && ls.OtherConfig["foe"] == ""
		})
	}
	if got := e.counter.count() - start; got != 8 {
		t.Errorf("%d repairs, want 8", got)
	}
	e.await(t, "the news of the last", func() bool { return e.Drifts().Total >= 8 })
	if r := e.Drifts(); r.Total != 8 || len(r.Latest) != 1 || r.Latest[0].Count != 8 {
		t.Errorf("reported %+v, want one difference seen 8 times", r)
	}
	if elapsed := time.Since(began); elapsed < 3*time.Second {
		t.Errorf("8 repairs of one row took %s: the last three have to wait a second each", elapsed)
	}
}

func TestDriftComparesWithoutWriting(t *testing.T) {
	nb := ovndbtest.Start(t, "ovn-nb")
	e := run(t, nb)
	e.ReportOnly(true)
	e.apply(t, switchUnit("n1", 10))
	e.apply(t, portUnit("n1", "p1", "u1", 16))
	if changes, err := e.Drift(t.Context()); err != nil || len(changes) != 0 {
		t.Fatalf("differs at once: %+v, %v", changes, err)
	}
	nb.Ctl("remove", "Logical_Switch", "n1", "ports", portID("p1", "u1"), "--", "set", "Logical_Switch", "n1", "other_config:a=b")
	e.await(t, "the report", func() bool { return e.Drifts().Standing > 0 })
	changes, err := e.Drift(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, c := range changes {
		got = append(got, fmt.Sprintf("%s %s %s %s", c.Owner, c.Op, c.Table, c.Name))
	}
	want := []string{"node/n1 update Logical_Switch n1", "pod/p1 add Logical_Switch n1", "pod/p1 insert Logical_Switch_Port p1"}
	if !slices.Equal(got, want) {
		t.Errorf("drift is %q, want %q", got, want)
	}
}

// An address that an earlier process left in one of our sets, or that another program added, would be accepted by a
// policy. Until all units are applied, an unapplied unit may want it.
func TestUnwantedElementGoesOnceAllUnitsAreApplied(t *testing.T) {
	nb := ovndbtest.Start(t, "ovn-nb")
	e := runWith(t, ovndb.Config{Endpoints: []string{nb.Endpoint()}, Audit: 50 * time.Millisecond})
	addresses := func() string {
		return strings.TrimSpace(nb.Ctl("--bare", "--columns=addresses", "list", "Address_Set"))
	}
	u := unit.Unit{Key: "set/a", Rows: []unit.Row{{Model: &nbdb.AddressSet{UUID: setRef().UUID, Name: "a"}}},
		Members: []unit.Membership{{Parent: setRef(), Column: "addresses", Element: "10.0.0.1"}}}
	e.apply(t, u)
	nb.Ctl("add", "Address_Set", setRef().UUID, "addresses", "10.0.0.9")
	e.apply(t, switchUnit("n1", 10))
	e.repairs(t, func() { nb.Ctl("remove", "Address_Set", setRef().UUID, "addresses", "10.0.0.1") },
		func() bool { return addresses() == "10.0.0.1 10.0.0.9" })
	before := e.Drifts().Total
	e.Complete()
	e.await(t, "the end of the element that no unit wants", func() bool { return addresses() == "10.0.0.1" })
	e.apply(t, switchUnit("n1", 10))
	if got := e.Drifts().Total; got != before {
		t.Errorf("%d differences before the units were complete, %d after: an element of a vanished object counts as drift", before, got)
	}
	e.repairs(t, func() { nb.Ctl("add", "Address_Set", setRef().UUID, "addresses", "10.0.0.8") },
		func() bool { return addresses() == "10.0.0.1" })
}

// A process keeps the rows of a unit that it cannot judge. In their sets, a unit removes what a former process added for it, and nothing
// that another unit wants.
func TestFormerElementLeavesAKeptRow(t *testing.T) {
	nb := ovndbtest.Start(t, "ovn-nb")
	addresses := func() string {
		return strings.TrimSpace(nb.Ctl("--bare", "--columns=addresses", "list", "Address_Set"))
	}
	in := func(addresses ...string) (all []unit.Membership) {
		for _, a := range addresses {
			all = append(all, unit.Membership{Parent: setRef(), Column: "addresses", Element: a})
		}
		return all
	}
	former := run(t, nb)
	former.apply(t, unit.Unit{Key: "gateway/n1", Rows: []unit.Row{{Model: &nbdb.AddressSet{UUID: setRef().UUID, Name: "a"}}}})
	former.apply(t, unit.Unit{Key: "pool/a", Members: in("192.0.2.1", "192.0.2.2", "192.0.2.3")})
	e := run(t, nb)
	e.apply(t, unit.Unit{Key: "pool/b", Members: in("192.0.2.2")})
	e.apply(t, unit.Unit{Key: "pool/a", Members: in("192.0.2.3"), Left: in("192.0.2.1", "192.0.2.2", "192.0.2.3")})
	if got, want := addresses(), "192.0.2.2 192.0.2.3"; got != want {
		t.Errorf("the kept set has %s, want %s", got, want)
	}
	before := e.counter.count()
	e.apply(t, unit.Unit{Key: "pool/a", Members: in("192.0.2.3"), Left: in("192.0.2.3", "192.0.2.9")})
	if got := e.counter.count() - before; got != 0 {
		t.Errorf("%d transactions remove nothing", got)
	}
}

// A group that is applied again while the units of its ports end, as in a scale to zero, shows no foreign change:
// those units have not committed their removal yet.
func TestElementsThatUnitsLeaveAreNoDrift(t *testing.T) {
	nb := ovndbtest.Start(t, "ovn-nb")
	e := runWith(t, ovndb.Config{Endpoints: []string{nb.Endpoint()}, Audit: 50 * time.Millisecond})
	e.Complete()
	e.apply(t, switchUnit("n1", 10))
	group := unit.Unit{Key: "group/g", Rows: []unit.Row{{Model: &nbdb.PortGroup{UUID: groupRef().UUID, Name: "g"}}}}
	e.apply(t, group)
	const ports = 60
	var members []unit.Unit
	for n := range ports {
		u := portUnit("n1", fmt.Sprintf("p%d", n), "uid", 16+n)
		u.Members = append(u.Members, inGroup(u))
		members = append(members, u)
		e.apply(t, u)
	}
	now, cancel := context.WithCancel(t.Context())
	cancel() // Apply must not wait for the outcome
	// Everything waits for the transaction in flight, and then forms one group.
	e.counter.beforeSettling(func() {
		_ = e.Apply(now, group)
		for _, u := range members {
			_ = e.Apply(now, empty(u))
		}
	})
	e.apply(t, switchUnit("n2", 11))
	e.await(t, "the end of all ports", func() bool { return nb.Ctl("--bare", "--columns=name", "list", "Logical_Switch_Port") == "" })
	e.apply(t, group)
	if got := e.Drifts(); got.Total != 0 {
		t.Errorf("%d differences are reported as foreign, the last is %+v", got.Total, got.Latest[0])
	}
	// Foreign changes are still found.
	e.apply(t, portUnit("n1", "foreign", "uid", 15))
	nb.Ctl("pg-set-ports", "g", "foreign")
	e.await(t, "the report", func() bool { return e.Drifts().Total > 0 })
}
