//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/weft-network/weft/pkg/ovn/names"
)

// row is a row of an OVSDB table as the ctl programs print it.
type row map[string]any

// rows reads columns of a table by running a ctl program inside a machine.
func (b *testbed) rows(ctx context.Context, machine, program, table, columns string) ([]row, error) {
	out, err := b.Exec(ctx, machine, program, "--timeout=10", "--format=json", "--columns="+columns, "list", table)
	if err != nil {
		return nil, err
	}
	var printed struct {
		Headings []string
		Data     [][]any
	}
	if err := json.Unmarshal(out, &printed); err != nil {
		return nil, fmt.Errorf("%s list %s: %w", program, table, err)
	}
	rows := make([]row, len(printed.Data))
	for i, values := range printed.Data {
		rows[i] = row{}
		for j, heading := range printed.Headings {
			rows[i][heading] = values[j]
		}
	}
	return rows, nil
}

// text returns the string in a column; empty if the column has no string.
func (r row) text(column string) string {
	s, _ := r[column].(string)
	return s
}

// pairs returns the map in a column (RFC 7047 §5.1).
func (r row) pairs(column string) map[string]string {
	found := map[string]string{}
	value, _ := r[column].([]any)
	if len(value) != 2 || value[0] != "map" {
		return found
	}
	list, _ := value[1].([]any)
	for _, pair := range list {
		if kv, ok := pair.([]any); ok && len(kv) == 2 {
			found[fmt.Sprint(kv[0])] = fmt.Sprint(kv[1])
		}
	}
	return found
}

// uuid returns the UUID in a column.
func (r row) uuid(column string) string {
	if value, _ := r[column].([]any); len(value) == 2 && value[0] == "uuid" {
		return fmt.Sprint(value[1])
	}
	return ""
}

// ofEachZone are the ports that the database of each zone has, besides the ports between zones.
var ofEachZone = []string{names.JoinToRouter(names.ClusterRouter), names.RefusalPort}

// ports returns the logical switch ports of all zones by name, without the ports between zones.
func (b *testbed) ports(ctx context.Context) (map[string]row, error) {
	machines, err := b.databaseMachines(ctx)
	if err != nil {
		return nil, err
	}
	byName := map[string]row{}
	for _, machine := range machines {
		rows, err := b.rows(ctx, machine, "ovn-nbctl", "Logical_Switch_Port", "_uuid,name,addresses,port_security,options,external_ids")
		if err != nil {
			return nil, err
		}
		for _, r := range rows {
			name := r.text("name")
			if strings.HasPrefix(name, names.TransitSwitchPort("")) {
				continue
			}
			if _, twice := byName[name]; twice && !(machine != b.central && slices.Contains(ofEachZone, name)) {
				return nil, fmt.Errorf("two ports have the name %s", name)
			}
			byName[name] = r
		}
	}
	return byName, nil
}

// transaction is a record in the log of a database file.
type transaction struct {
	comment string
	tables  []string
}

// heartbeat is the comment of the transactions with which the operator checks its connection to the database.
const heartbeat = "weft-heartbeat"

// databaseFile is the file of a database server.
type databaseFile struct{ machine, path string }

// northboundFile is the file of the lab's own northbound server, or of the product's in a bare lab.
func (b *testbed) northboundFile() databaseFile {
	if b.bare {
		return databaseFile{b.central, "/var/lib/ovn/ovnnb_db.db"}
	}
	return databaseFile{b.central, filepath.Join(b.Dir, b.central, "nb.db")}
}

// switchFile is the file of a node's Open vSwitch database.
func (b *testbed) switchFile(node string) databaseFile {
	if b.bare {
		return databaseFile{node, "/run/openvswitch/conf.db"}
	}
	return databaseFile{node, filepath.Join(b.Dir, node, "conf.db")}
}

// log reads all transactions in a database server's file except heartbeats.
func (b *testbed) log(ctx context.Context, file databaseFile) ([]transaction, error) {
	out, err := b.Exec(ctx, file.machine, "ovsdb-tool", "-m", "show-log", file.path)
	if err != nil {
		return nil, err
	}
	var all []transaction
	for line := range strings.Lines(string(out)) {
		switch {
		case strings.HasPrefix(line, "record "):
			_, comment, _ := strings.Cut(line, `"`)
			all = append(all, transaction{comment: strings.TrimSpace(comment)})
		case strings.HasPrefix(line, "  table ") && len(all) > 0:
			last := &all[len(all)-1]
			last.tables = append(last.tables, strings.TrimSpace(line))
		}
	}
	return slices.DeleteFunc(all, func(t transaction) bool { return strings.Contains(t.comment, heartbeat) }), nil
}
