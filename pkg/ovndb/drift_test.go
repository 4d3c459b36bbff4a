package ovndb_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weft-network/weft/pkg/nbdb"
	"github.com/weft-network/weft/pkg/ovndb"
	"github.com/weft-network/weft/pkg/ovndb/ovndbtest"
	"github.com/weft-network/weft/pkg/unit"
)

// one returns the only difference that the engine tells of.
func (r *running) one(t *testing.T) ovndb.Drift {
	t.Helper()
	report := r.Drifts()
	if report.Total != 1 || len(report.Latest) != 1 {
		t.Fatalf("differences told: %+v, want one", report)
	}
	return report.Latest[0]
}

func portID(name, uid string) string { return unit.UUID(nbdb.LogicalSwitchPortTable, name+" "+uid) }

func TestRepairIsTold(t *testing.T) {
	nb := ovndbtest.Start(t, "ovn-nb")
	e := run(t, nb)
	e.apply(t, switchUnit("n1", 10))
	e.apply(t, portUnit("n1", "p1", "u1", 16))
	e.repairs(t, func() { nb.Ctl("lsp-set-addresses", "p1", "router") }, func() bool {
		p, ok := ovndb.Get[nbdb.LogicalSwitchPort](e.Conn, portID("p1", "u1"))
		return ok && len(p.Addresses) == 2
	})
	e.await(t, "the news", func() bool { return len(e.counter.told()) == 1 })
	got := e.one(t)
	got.Since, got.Last = time.Time{}, time.Time{}
	want := ovndb.Drift{Owner: "pod/p1", Op: ovndb.OpUpdate, Table: "Logical_Switch_Port", UUID: portID("p1", "u1"), Name: "p1",
		Column: "addresses", Want: "a, b", Have: "router", State: ovndb.DriftRepaired, Count: 1}
	if got != want {
		t.Errorf("told %+v\nwant %+v", got, want)
	}
}

// A unit that is applied again while its repair is on the way does not make the engine forget what it repaired.
func TestRepairOfAUnitThatIsAppliedAgainIsTold(t *testing.T) {
	nb := ovndbtest.Start(t, "ovn-nb")
	e := run(t, nb)
	e.apply(t, switchUnit("n1", 10))
	e.apply(t, portUnit("n1", "p1", "u1", 16))
	now, cancel := context.WithCancel(t.Context())
	cancel() // Apply shall not wait for the outcome
	e.counter.beforeSettling(func() { _ = e.Apply(now, portUnit("n1", "p1", "u1", 16)) })
	nb.Ctl("lsp-set-addresses", "p1", "router")
	e.await(t, "the news", func() bool { return e.Drifts().Total == 1 })
	if got := e.one(t); got.Column != "addresses" || got.State != ovndb.DriftRepaired {
		t.Errorf("told %+v", got)
	}
}

func TestDeletedRowIsTold(t *testing.T) {
	nb := ovndbtest.Start(t, "ovn-nb")
	e := run(t, nb)
	e.apply(t, switchUnit("n1", 10))
	e.apply(t, portUnit("n1", "p1", "u1", 16))
	e.repairs(t, func() { nb.Ctl("lsp-del", "p1") }, func() bool { return ports(nb, "n1") == "p1" })
	e.await(t, "the news", func() bool { return len(e.counter.told()) > 0 })
	drift := e.Drifts().Latest
	if !slices.ContainsFunc(drift, func(d ovndb.Drift) bool {
		return d.Table == "Logical_Switch_Port" && d.Want == "present" && d.Have == "absent"
	}) {
		t.Errorf("told %+v, want the absent port", drift)
	}
}

// Somebody's copy of a row, our name in its external_ids and all, is a double of ours.
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
	e.await(t, "the news", func() bool { return len(e.counter.told()) == 1 })
	if d := e.one(t); d.Have != "present" || d.Want != "absent" || d.Name != "n1-copy" {
		t.Errorf("told %+v, want the double", d)
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
	case <-time.After(20 * time.Second):
		t.Fatal("nobody was asked to sweep")
	}
}

// The port of one switch that somebody added to another one as well would be ambiguous to northd.
func TestMisplacedElementIsRemoved(t *testing.T) {
	nb := ovndbtest.Start(t, "ovn-nb")
	e := runWith(t, ovndb.Config{Endpoints: []string{nb.Endpoint()}, Audit: 50 * time.Millisecond})
	e.apply(t, switchUnit("n1", 10))
	e.apply(t, switchUnit("n2", 11))
	e.apply(t, portUnit("n1", "p1", "u1", 16))
	e.repairs(t, func() { nb.Ctl("add", "Logical_Switch", "n2", "ports", portID("p1", "u1")) }, func() bool { return ports(nb, "n2") == "" })
	if got := ports(nb, "n1"); got != "p1" {
		t.Errorf("ports of n1 are %q", got)
	}
}

func TestNamesakeIsToldAndLeftAlone(t *testing.T) {
	nb := ovndbtest.Start(t, "ovn-nb")
	e := run(t, nb)
	e.apply(t, switchUnit("n1", 10))
	id := strings.TrimSpace(nb.Ctl("create", "Logical_Switch", "name=n1"))
	e.await(t, "the news", func() bool { return e.Drifts().Standing == 1 })
	if d := e.one(t); d.State != ovndb.DriftCollision || d.UUID != id || d.Name != "n1" || d.Owner != "node/n1" {
		t.Errorf("told %+v, want the collision with %s", d, id)
	}
	if got := nb.Ctl("--bare", "--columns=_uuid", "find", "Logical_Switch", "name=n1"); !strings.Contains(got, id) {
		t.Errorf("the foreign switch %s was touched: %s", id, got)
	}
	nb.Ctl("destroy", "Logical_Switch", id)
	e.await(t, "its end", func() bool { return e.Drifts().Standing == 0 })
}

// Where the server keeps names unique, a foreign row stops ours; the report names it.
func TestNameTakenByAForeignRowIsTold(t *testing.T) {
	nb := ovndbtest.Start(t, "ovn-nb")
	nb.Ctl("ls-add", "other", "--", "lsp-add", "other", "p1")
	e := run(t, nb)
	e.apply(t, switchUnit("n1", 10))
	if err := e.try(portUnit("n1", "p1", "u1", 16)); err == nil {
		t.Fatal("two ports of one name")
	}
	if d := e.one(t); d.State != ovndb.DriftCollision || d.Name != "p1" || d.Table != "Logical_Switch_Port" {
		t.Errorf("told %+v, want the collision", d)
	}
	nb.Ctl("lsp-del", "p1") // nobody applies the unit again: the end of the foreign row is enough
	e.await(t, "the port", func() bool { return ports(nb, "n1") == "p1" && e.Drifts().Standing == 0 })
}

func TestReportOnlyLeavesItUntilTheUnitChanges(t *testing.T) {
	nb := ovndbtest.Start(t, "ovn-nb")
	e := run(t, nb)
	e.ReportOnly(true)
	e.apply(t, switchUnit("n1", 10))
	e.apply(t, portUnit("n1", "p1", "u1", 16))
	before := e.counter.count()
	nb.Ctl("lsp-set-addresses", "p1", "router")
	e.await(t, "the news", func() bool { return e.Drifts().Standing == 1 })
	e.apply(t, portUnit("n1", "p1", "u1", 16)) // the same again
	if d := e.one(t); d.State != ovndb.DriftStanding || d.Count != 1 {
		t.Errorf("told %+v, want it standing, once", d)
	}
	if got := e.counter.count(); got != before {
		t.Errorf("%d writes though it shall only report", got-before)
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
		t.Errorf("told %+v, want it repaired", d)
	}
}

// Another program that undoes each repair at once must not keep both busy.
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
		t.Errorf("told %+v, want one difference seen 8 times", r)
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
	e.await(t, "the news", func() bool { return e.Drifts().Standing > 0 })
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

// An address that an earlier process left in a set of ours, or that somebody put there, would be let through by a policy. While not
// all units are known, it may be wanted by one of those that are missing.
func TestUnwantedElementGoesOnceAllUnitsAreKnown(t *testing.T) {
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
	e.repairs(t, e.Complete, func() bool { return addresses() == "10.0.0.1" })
	e.repairs(t, func() { nb.Ctl("add", "Address_Set", setRef().UUID, "addresses", "10.0.0.8") },
		func() bool { return addresses() == "10.0.0.1" })
}
