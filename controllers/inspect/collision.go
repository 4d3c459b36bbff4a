package inspect

import (
	"fmt"

	"github.com/weft-network/weft/pkg/ovn/nbdb"
	"github.com/weft-network/weft/pkg/ovndb"
)

// collisions returns a note for each row that the database would refuse, because names are unique and a row that
// stays has the same name.
func (a *Inspector) collisions(changes []ovndb.Change) (notes []string) {
	gone := map[string]bool{}
	for _, c := range changes {
		if c.Op == ovndb.OpDelete {
			gone[c.UUID] = true
		}
	}
	for _, c := range changes {
		if c.Op != ovndb.OpInsert {
			continue
		}
		if uuid, ok := a.holder(c.Table, c.Name); ok && !gone[uuid] {
			notes = append(notes, fmt.Sprintf("%s would be refused by the database: row %s of %s has the name %s already",
				c.Owner, uuid, c.Table, c.Name))
		}
	}
	return notes
}

// holder returns the row that has a name, in a table whose names are unique (ovn-nb.ovsschema, indexes).
func (a *Inspector) holder(table, name string) (uuid string, ok bool) {
	switch table {
	case nbdb.LogicalSwitchPortTable:
		if port, found := ovndb.Find(a.Database.Conn, &nbdb.LogicalSwitchPort{Name: name}); found {
			return port.UUID, true
		}
	case nbdb.LogicalRouterPortTable:
		if port, found := ovndb.Find(a.Database.Conn, &nbdb.LogicalRouterPort{Name: name}); found {
			return port.UUID, true
		}
	}
	return "", false
}
