// Package serverstate describes _Server, the database in which each ovsdb-server reports the state of its databases
// (ovsdb-server(5)).
package serverstate

import (
	"github.com/ovn-kubernetes/libovsdb/ovsdb/serverdb"

	"github.com/weft-network/weft/pkg/ovndb"
)

// Schema describes what a client reads to follow which server leads a cluster. The column index is left out, because
// it changes with each transaction.
func Schema() ovndb.Schema {
	tables := map[string]ovndb.Table{
		serverdb.DatabaseTable: {Foreign: true, Omitted: []string{"cid", "index", "schema", "sid"}},
	}
	model, err := serverdb.FullDatabaseModel()
	return ovndb.NewSchema(model, err, tables)
}
