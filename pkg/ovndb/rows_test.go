package ovndb_test

import (
	"context"
	"slices"
	"testing"

	"github.com/ovn-kubernetes/libovsdb/model"

	"github.com/weft-network/weft/pkg/ovn/nbdb"
	"github.com/weft-network/weft/pkg/ovndb/ovndbtest"
)

// Rows includes what the monitor does not show: the ports of a switch, including foreign ports.
func TestRowsAreWhole(t *testing.T) {
	nb := ovndbtest.Start(t, "ovn-nb")
	e := run(t, nb)
	e.apply(t, switchUnit("n1", 10))
	e.apply(t, portUnit("n1", "p1", "u1", 16))
	nb.Ctl("lsp-add", "n1", "foreign")
	e.await(t, "the foreign port", func() bool {
		rows, err := e.Rows(context.Background())
		return err == nil && len(rows[nbdb.LogicalSwitchPortTable]) == 2
	})
	rows, err := e.Rows(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, row := range rows[nbdb.LogicalSwitchPortTable] {
		want = append(want, row.(*nbdb.LogicalSwitchPort).UUID)
	}
	slices.Sort(want)
	switches := rows[nbdb.LogicalSwitchTable]
	if len(switches) != 1 || !slices.Equal(switches[0].(*nbdb.LogicalSwitch).Ports, want) {
		t.Errorf("switches are %+v, want one with the ports %v", switches, want)
	}
	if _, read := rows[nbdb.NATTable]; !read {
		t.Error("an empty table is as if it were not read")
	}
	for _, row := range switches {
		row.(*nbdb.LogicalSwitch).Name = "changed"
	}
	if again, err := e.Rows(t.Context()); err != nil || slices.ContainsFunc(again[nbdb.LogicalSwitchTable], func(m model.Model) bool {
		return m.(*nbdb.LogicalSwitch).Name == "changed"
	}) {
		t.Errorf("a change of a row reached the copy of the database (%v)", err)
	}
	e.stop()
	e.await(t, "the end of the connection", func() bool { return !e.Connected() })
	if _, err := e.Rows(t.Context()); err == nil {
		t.Error("rows are read without a connection")
	}
}
