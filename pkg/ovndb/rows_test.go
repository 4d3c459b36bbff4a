package ovndb_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/weft-network/weft/pkg/ovn/nbdb"
	"github.com/weft-network/weft/pkg/ovndb"
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
	uuid := switches[0].(*nbdb.LogicalSwitch).UUID
	if cached, ok := ovndb.Get[nbdb.LogicalSwitch](e.Conn, uuid); !ok || len(cached.Ports) > 0 {
		t.Errorf("the copy of the database has ports that it does not monitor: %+v", cached)
	}
	e.stop()
	e.await(t, "the end of the connection", func() bool { return !e.Connected() })
	if _, err := e.Rows(t.Context()); err == nil {
		t.Error("rows are read without a connection")
	}
}

// All rows of a port's table cost few allocations for each row, because they are not copied.
func TestRowsAreNotCopied(t *testing.T) {
	e := run(t, ovndbtest.Start(t, "ovn-nb"))
	e.apply(t, switchUnit("n1", 10))
	for i := range 100 {
		e.apply(t, portUnit("n1", fmt.Sprint("p", i), "u", 16+i))
	}
	allocations := testing.AllocsPerRun(5, func() {
		if _, err := e.Rows(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
	t.Logf("%.0f allocations for 100 ports", allocations)
	if allocations > 36*100 {
		t.Errorf("%.0f allocations for 100 ports, want at most 36 for each", allocations)
	}
}
