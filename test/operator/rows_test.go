package operator

import (
	"encoding/csv"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/weft-network/weft/pkg/ovndb"
	"github.com/weft-network/weft/pkg/ovndb/ovndbtest"
	"github.com/weft-network/weft/pkg/process/admin"
)

// rows are the rows of Weft's tables as the server has them: table -> UUID -> column -> value. Sets and maps are
// sorted lists.
type rows map[string]map[string]map[string][]string

// sharedColumns have elements of several units; ignored columns are northd's.
var (
	sharedColumns = map[string][]string{"Logical_Switch": {"ports", "acls", "qos_rules", "load_balancer_group"},
		"Logical_Router":              {"ports", "static_routes", "policies", "nat", "load_balancer_group"},
		"Load_Balancer_Group":         {"load_balancer"},
		"Logical_Router_Static_Route": {"bfd"},
		"Chassis_Template_Var":        {"variables"}, "Port_Group": {"ports", "acls"}, "Address_Set": {"addresses"}}
	defaults       = []string{"0", "false"} // default values of scalar columns
	ignoredColumns = []string{"_uuid", "up", "dynamic_addresses", "tag", "ipv6_prefix"}
)

// selectRows reads the tables without a cache.
func (w *world) selectRows() rows {
	w.Helper()
	found := rows{}
	for _, table := range []string{"Logical_Router", "Logical_Router_Port", "Logical_Switch", "Logical_Switch_Port",
		"QoS", "Load_Balancer", "Load_Balancer_Group",
		"Logical_Router_Static_Route", "Logical_Router_Policy", "NAT", "Chassis_Template_Var", "Port_Group", "ACL",
		"Address_Set", "Meter", "Meter_Band", "BFD"} {
		text := ovndbtest.Command(w, "ovsdb-client", "-f", "csv", "dump", w.nb.Endpoint(), "OVN_Northbound", table)
		_, text, _ = strings.Cut(text, "\n") // "<table> table"
		lines, err := csv.NewReader(strings.NewReader(text)).ReadAll()
		w.must(err)
		found[table] = map[string]map[string][]string{}
		for _, line := range lines[1:] {
			row := map[string][]string{}
			for i, column := range lines[0] {
				row[column] = values(line[i])
			}
			found[table][row["_uuid"][0]] = row
		}
	}
	return found
}

// values parses a column as ovsdb-client prints it: "[a, b]", "{k=v, k=v}" or a plain value.
func values(text string) []string {
	if quoted, err := strconv.Unquote(text); err == nil && quoted != "" {
		return []string{quoted}
	}
	inner := strings.TrimSuffix(strings.TrimPrefix(text, "["), "]")
	inner = strings.TrimSuffix(strings.TrimPrefix(inner, "{"), "}")
	inner = strings.ReplaceAll(inner, `"`, "")
	if inner == "" {
		return nil
	}
	list := strings.Split(inner, ", ")
	slices.Sort(list)
	return list
}

// nameOf returns a row's name from the first state that has it. A rule's name is its match.
func nameOf(uuid string, states ...rows) string {
	for _, state := range states {
		for _, table := range state {
			row := table[uuid]
			for _, column := range []string{"name", "match"} {
				if len(row[column]) == 1 {
					return row[column][0]
				}
			}
		}
	}
	return uuid
}

// differences describes the changes between two states, in the format of describe.
func differences(before, after rows) []string {
	var found []string
	for table := range before {
		for uuid := range union(before[table], after[table]) {
			found = append(found, rowDifferences(table, uuid, before, after)...)
		}
	}
	slices.Sort(found)
	return found
}

func union[V any](a, b map[string]V) map[string]V {
	both := maps.Clone(a)
	maps.Copy(both, b)
	return both
}

func rowDifferences(table, uuid string, before, after rows) (found []string) {
	had, existed := before[table][uuid]
	has, exists := after[table][uuid]
	name := nameOf(uuid, before, after)
	if !exists {
		return []string{fmt.Sprintf("delete %s %s", table, name)}
	}
	op := "update"
	if !existed {
		op = "insert"
		found = append(found, fmt.Sprintf("insert %s %s", table, name))
	}
	for column := range has {
		switch {
		case slices.Contains(ignoredColumns, column):
		case slices.Contains(sharedColumns[table], column):
			for _, element := range has[column] {
				if !slices.Contains(had[column], element) {
					found = append(found, fmt.Sprintf("add %s %s %s %s", table, name, column, nameOf(element, before, after)))
				}
			}
			for _, element := range had[column] {
				if !slices.Contains(has[column], element) {
					found = append(found, fmt.Sprintf("remove %s %s %s %s", table, name, column, nameOf(element, before, after)))
				}
			}
		case op == "insert" && len(has[column]) == 1 && slices.Contains(defaults, has[column][0]):
		case !slices.Equal(had[column], has[column]):
			found = append(found, fmt.Sprintf("%s %s %s %s: %q", op, table, name, column, strings.Join(has[column], ", ")))
		}
	}
	return found
}

// describe describes the changes of a plan. The states provide the names of rows; uid is the new pod's.
func describe(changes admin.Changes, uid string, states ...rows) []string {
	var found []string
	named := func(uuid, name string) string {
		if name != "" {
			return name
		}
		return nameOf(uuid, states...)
	}
	for _, c := range changes.Changes {
		name := named(c.UUID, c.Name)
		switch c.Op {
		case ovndb.OpInsert, ovndb.OpDelete:
			found = append(found, fmt.Sprintf("%s %s %s", c.Op, c.Table, name))
		}
		for _, column := range c.Columns {
			switch want := strings.ReplaceAll(column.Want, "(known after apply)", uid); c.Op {
			case ovndb.OpAdd:
				found = append(found, fmt.Sprintf("add %s %s %s %s", c.Table, name, column.Column, nameOf(want, states...)))
			case ovndb.OpRemove:
				found = append(found, fmt.Sprintf("remove %s %s %s %s", c.Table, name, column.Column, nameOf(column.Have, states...)))
			default:
				found = append(found, fmt.Sprintf("%s %s %s %s: %q", c.Op, c.Table, name, column.Column, want))
			}
		}
	}
	slices.Sort(found)
	return found
}
