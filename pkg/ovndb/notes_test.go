package ovndb_test

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weft-network/weft/pkg/ovn/nbdb"
	"github.com/weft-network/weft/pkg/ovndb"
	"github.com/weft-network/weft/pkg/ovndb/history"
	"github.com/weft-network/weft/pkg/ovndb/ovndbtest"
	"github.com/weft-network/weft/pkg/unit"
)

// because returns a context with a cause.
func because(t *testing.T, reconciler string, object unit.Key) context.Context {
	return ovndb.WithCause(t.Context(), ovndb.Cause{Object: object, Reconciler: reconciler})
}

// recorded returns an engine with comments and a history.
func recorded(t *testing.T, nb *ovndbtest.Server) *running {
	return runWith(t, ovndb.Config{Endpoints: []string{nb.Endpoint()}, Writer: "weft v1.2.3", History: &history.Recorder{}})
}

// story returns the history of all units, one line for each entry.
func (r *running) story() (lines []string) {
	entries, _ := r.Latest(0, func(history.Change, history.Cause) bool { return true })
	for _, e := range entries {
		line := fmt.Sprintf("%s %s", e.By, e.State)
		for _, c := range e.Causes {
			line += fmt.Sprintf(" [%s %s %s %t]", c.Unit, c.Object, c.Reconciler, c.Repair)
		}
		for _, c := range e.Changes {
			line += fmt.Sprintf(" %s %s %s %s", c.Owner, c.Op, c.Table, c.Name)
			for _, column := range c.Columns {
				line += fmt.Sprintf(" %s(%s>%s)", column.Column, column.Before, column.After)
			}
		}
		lines = append(lines, line)
	}
	return lines
}

// comments returns the engine's comments in the server's log, without the heartbeats.
func comments(t *testing.T, nb *ovndbtest.Server) (found []string) {
	for _, line := range regexp.MustCompile(`(?m)^record \d+: .*$`).FindAllString(nb.Log(), -1) {
		if _, comment, ok := strings.Cut(line, ` "weft `); ok {
			found = append(found, strings.TrimSuffix(comment, `"`))
		}
	}
	return found
}

// Each transaction is recorded with its causes and with what it changed, and its comment in the server's log says the
// same in short.
func TestTransactionsCarryTheirCause(t *testing.T) {
	nb := ovndbtest.Start(t, "ovn-nb")
	e := recorded(t, nb)
	port, id := portUnit("n1", "p1", "u1", 16), portID("p1", "u1")
	for _, step := range []struct {
		ctx context.Context
		u   unit.Unit
	}{
		{because(t, "node", "node/n1"), switchUnit("n1", 10)},
		{because(t, "pod", "pod/p1"), port},
		{because(t, "pod", "pod/p1"), port}, // changes nothing
		{because(t, "networkpolicy", "networkpolicy/demo/web"), portUnit("n1", "p1", "u1", 17)},
		{t.Context(), empty(port)},
	} {
		if err := e.Apply(step.ctx, step.u); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff([]string{
		"Weft Committed [node/n1 node/n1 node false] node/n1 insert Logical_Switch n1 name(>n1) other_config(>requested-tnl-key=10)",
		"Weft Committed [pod/p1 pod/p1 pod false] pod/p1 insert Logical_Switch_Port p1 addresses(>a, b)" +
			" name(>p1) options(>iface-id-ver=u1, requested-tnl-key=16) pod/p1 add Logical_Switch n1 ports(>" + id + ")",
		"Weft Committed [pod/p1 networkpolicy/demo/web networkpolicy false] pod/p1 update Logical_Switch_Port p1 " +
			"options(requested-tnl-key=16>requested-tnl-key=17)",
		"Weft Committed [pod/p1   false] pod/p1 remove Logical_Switch n1 ports(" + id + ">) pod/p1 delete Logical_Switch_Port p1 " +
			"addresses(a, b>) name(p1>) options(iface-id-ver=u1, requested-tnl-key=17>)",
	}, e.story()); diff != "" {
		t.Errorf("history (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{
		"v1.2.3: takes over",
		"v1.2.3: node/n1 (reconciler node)",
		"v1.2.3: pod/p1 (reconciler pod)",
		"v1.2.3: pod/p1 (reconciler networkpolicy, object networkpolicy/demo/web)",
		"v1.2.3: pod/p1",
	}, comments(t, nb)); diff != "" {
		t.Errorf("comments (-want +got):\n%s", diff)
	}
}

// A foreign change is recorded before its repair. Rows that never belonged to Weft are recorded when they come and go.
func TestForeignHandsAreRecorded(t *testing.T) {
	nb := ovndbtest.Start(t, "ovn-nb")
	e := recorded(t, nb)
	e.apply(t, switchUnit("n1", 10))
	if err := e.Apply(because(t, "pod", "pod/p1"), portUnit("n1", "p1", "u1", 16)); err != nil {
		t.Fatal(err)
	}
	mine := len(e.story())
	e.repairs(t, func() { nb.Ctl("lsp-set-addresses", "p1", "router") }, func() bool { return len(e.story()) == mine+2 })
	nb.Ctl("ls-add", "theirs")
	e.await(t, "the foreign row", func() bool { return len(e.story()) == mine+3 })
	nb.Ctl("ls-del", "theirs")
	e.await(t, "its end", func() bool { return len(e.story()) == mine+4 })
	if diff := cmp.Diff([]string{
		"Other Repaired pod/p1 update Logical_Switch_Port p1 addresses(a, b>router)",
		"Weft Committed [pod/p1 pod/p1 pod true] pod/p1 update Logical_Switch_Port p1 addresses(router>a, b)",
		"Other Seen  insert Logical_Switch theirs",
		"Other Seen  delete Logical_Switch theirs",
	}, e.story()[mine:]); diff != "" {
		t.Errorf("history (-want +got):\n%s", diff)
	}
	found := comments(t, nb)
	if want := "v1.2.3: pod/p1 (reconciler pod, repair)"; found[len(found)-1] != want {
		t.Errorf("comments %q, want %q for the repair", found, want)
	}
}

// A transaction of many units names the first, and how many more there are. All are in its entry.
func TestCommentsAreShort(t *testing.T) {
	nb := ovndbtest.Start(t, "ovn-nb")
	e := recorded(t, nb)
	var units []unit.Unit
	for i := range 40 {
		units = append(units, switchUnit(fmt.Sprintf("n%02d-%s", i, strings.Repeat("x", 200)), 10+i))
	}
	if err := e.ApplyAll(because(t, "node", "node/n"), units...); err != nil {
		t.Fatal(err)
	}
	found := comments(t, nb)
	if last := found[len(found)-1]; len(found) != 2 || !strings.Contains(last, "node/n02-x") || !strings.HasSuffix(last, "; 37 more") ||
		len(last) > 600 {
		t.Errorf("comments %q", found)
	}
	entries, since := e.Latest(0, func(c history.Change, cause history.Cause) bool { return cause.Object == "node/n" })
	if len(entries) != 1 || len(entries[0].Changes)+entries[0].Omitted != 40 || since.IsZero() {
		t.Errorf("history since %s: %d entries", since, len(entries))
	}
}

// The transaction that inserts a group adds the elements of other units. They are recorded with the group's cause.
func TestElementsHaveTheCauseOfTheirRow(t *testing.T) {
	nb := ovndbtest.Start(t, "ovn-nb")
	e := recorded(t, nb)
	e.apply(t, switchUnit("n1", 10))
	group := unit.UUID(nbdb.PortGroupTable, "g")
	port := portUnit("n1", "p1", "u1", 16)
	port.Members = append(port.Members, unit.Membership{Parent: unit.Ref{Table: nbdb.PortGroupTable, UUID: group}, Column: "ports",
		Element: portID("p1", "u1"), Optional: true})
	e.apply(t, port)
	if err := e.Apply(because(t, "networkpolicy", "networkpolicy/demo/web"), unit.Unit{Key: "podgroup/g",
		Rows: []unit.Row{{Model: &nbdb.PortGroup{UUID: group, Name: "g"}}}}); err != nil {
		t.Fatal(err)
	}
	entries, _ := e.Latest(1, func(c history.Change, _ history.Cause) bool { return c.Owner == "pod/p1" })
	if len(entries) != 1 || len(entries[0].Changes) != 1 {
		t.Fatalf("history of the pod: %+v", entries)
	}
	c, causes := entries[0].Changes[0], entries[0].Causes
	if c.Op != "add" || c.Name != "g" || c.Holder != "podgroup/g" || len(causes) != 1 || causes[0].Object != "networkpolicy/demo/web" {
		t.Errorf("change %+v because of %+v", c, causes)
	}
}
