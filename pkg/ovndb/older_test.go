package ovndb_test

import (
	"context"
	"strings"
	"testing"

	"github.com/weft-network/weft/pkg/ovn/nbdb"
	"github.com/weft-network/weft/pkg/ovndb/ovndbtest"
	"github.com/weft-network/weft/pkg/unit"
)

func natUnit(match string) unit.Unit {
	router := &nbdb.LogicalRouter{UUID: unit.UUID(nbdb.LogicalRouterTable, "r"), Name: "r"}
	nat := &nbdb.NAT{UUID: unit.UUID(nbdb.NATTable, "r"), Type: nbdb.NATTypeSNAT, ExternalIP: "192.0.2.1",
		LogicalIP: "10.0.0.0/8", Match: match}
	return unit.Unit{Key: unit.NewKey("node", "r"), Rows: []unit.Row{{Model: router}, {Model: nat}},
		Members: []unit.Membership{{Parent: unit.Ref{Table: nbdb.LogicalRouterTable, UUID: router.UUID},
			Column: "nat", Element: nat.UUID}}}
}

// TestServerWithoutOptionalColumns uses a server that lacks NAT.match. A row that needs no match is written, compared
// and read. The column is used after an upgrade.
func TestServerWithoutOptionalColumns(t *testing.T) {
	nb := ovndbtest.Start(t, "ovn-nb")
	nb.Convert(ovndbtest.EditSchema(t, "ovn-nb", func(schema map[string]any) {
		delete(ovndbtest.Columns(schema, "NAT"), "match")
		delete(ovndbtest.Columns(schema, "NAT"), "priority")
	}))
	e := runWith(t, quick(nb.Endpoint()))
	if e.Has(nbdb.NATTable, "match") {
		t.Error("the server is said to have NAT.match")
	}
	e.apply(t, natUnit(""))
	before := e.counter.count()
	e.apply(t, natUnit(""))
	if n := e.counter.count() - before; n != 0 {
		t.Errorf("the same again took %d transactions", n)
	}
	rows, err := e.Rows(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if nat, ok := rows[nbdb.NATTable][0].(*nbdb.NAT); !ok || nat.ExternalIP != "192.0.2.1" {
		t.Errorf("the row is read as %+v", rows[nbdb.NATTable][0])
	}
	e.repairs(t, func() { nb.Ctl("set", "NAT", ".", "external_ip=192.0.2.9") }, func() bool {
		return strings.Contains(nb.Ctl("--bare", "--columns=external_ip", "list", "NAT"), "192.0.2.1")
	})
	nb.Convert(ovndbtest.SchemaFile(t, "ovn-nb"))
	e.await(t, "the column", func() bool { return e.Has(nbdb.NATTable, "match") })
	e.apply(t, natUnit("ip4.src == 10.0.0.1"))
	if got := nb.Ctl("--bare", "--columns=match", "list", "NAT"); !strings.Contains(got, "ip4.src == 10.0.0.1") {
		t.Errorf("the match is %q", got)
	}
}
