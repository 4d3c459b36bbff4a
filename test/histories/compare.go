package histories

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/weft-network/weft/pkg/topology"
	"github.com/weft-network/weft/pkg/unit"
)

// wanted is the expected content of a table's row: columns as sorted texts.
type wanted struct {
	owner   unit.Key
	columns map[string][]string
}

// expectation is the expected database: table -> UUID -> row.
type expectation map[string]map[string]wanted

// shared are the columns that Weft fills by single elements, and that may hold foreign elements too.
var shared = map[string][]string{
	"Logical_Switch": {"ports", "acls", "qos_rules", "load_balancer", "load_balancer_group", "dns_records"},
	"Logical_Router": {"ports", "policies", "static_routes", "nat", "load_balancer", "load_balancer_group"},
	"Port_Group":     {"ports", "acls"},
	"Address_Set":    {"addresses"},

	"Load_Balancer_Group": {"load_balancer"}, "Chassis_Template_Var": {"variables"},
}

// theirs are columns that northd writes.
var theirs = []string{"up", "dynamic_addresses", "tag", "ipv6_prefix"}

// expectRows converts units to rows. A row whose optional parent is absent cannot exist: OVN deletes it. present is the
// database as it is, because a parent that must stay as it is belongs to no unit.
func expectRows(units []unit.Unit, present database) expectation {
	e := expectation{}
	for _, u := range units {
		for _, r := range u.Rows {
			table, id, columns := columnsOf(r.Model)
			if ids, ok := columns["external_ids"]; ok { // a group has no external_ids
				columns["external_ids"] = append(ids, unit.OwnerKey+"="+string(u.Key))
				slices.Sort(columns["external_ids"])
			}
			if e[table] == nil {
				e[table] = map[string]wanted{}
			}
			e[table][id] = wanted{u.Key, columns}
		}
	}
	for _, u := range units {
		for _, m := range u.Members {
			if parent, ok := e[m.Parent.Table][m.Parent.UUID]; ok {
				element := m.Element
				if m.Value != "" { // an element of a map
					element += "=" + m.Value
				}
				parent.columns[m.Column] = append(parent.columns[m.Column], element)
				slices.Sort(parent.columns[m.Column])
				parent.columns[m.Column] = slices.Compact(parent.columns[m.Column]) // two services may share an address
			} else if _, kept := present[m.Parent.Table][m.Parent.UUID]; m.Optional && !kept && (m.Column == "nat" || m.Column == "static_routes") {
				for _, rows := range e {
					delete(rows, m.Element)
				}
			}
		}
	}
	return e
}

// columnsOf reads the columns of a generated struct.
func columnsOf(m any) (table, id string, columns map[string][]string) {
	v := reflect.ValueOf(m).Elem()
	columns = map[string][]string{}
	for i := range v.NumField() {
		switch column := v.Type().Field(i).Tag.Get("ovsdb"); column {
		case "_uuid":
			id = v.Field(i).String()
		case "":
		default:
			columns[column] = texts(v.Field(i))
		}
	}
	return tableOf[v.Type().Name()], id, columns
}

// tableOf maps generated structs to tables.
var tableOf = map[string]string{
	"LogicalSwitch":            "Logical_Switch",
	"LogicalSwitchPort":        "Logical_Switch_Port",
	"LogicalRouter":            "Logical_Router",
	"LogicalRouterPort":        "Logical_Router_Port",
	"LogicalRouterStaticRoute": "Logical_Router_Static_Route",
	"LogicalRouterPolicy":      "Logical_Router_Policy",
	"NAT":                      "NAT",
	"BFD":                      "BFD",
	"PortGroup":                "Port_Group",
	"AddressSet":               "Address_Set",
	"ACL":                      "ACL",
	"QoS":                      "QoS",
	"LoadBalancer":             "Load_Balancer",
	"LoadBalancerGroup":        "Load_Balancer_Group",
	"ChassisTemplateVar":       "Chassis_Template_Var",
	"Meter":                    "Meter",
	"MeterBand":                "Meter_Band",
}

// texts converts a value to the form in which atoms returns the same value from the database.
func texts(v reflect.Value) []string {
	list := []string{}
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			return texts(v.Elem())
		}
	case reflect.Slice:
		for i := range v.Len() {
			list = append(list, texts(v.Index(i))...)
		}
	case reflect.Map:
		for _, k := range v.MapKeys() {
			list = append(list, fmt.Sprintf("%v=%v", k, v.MapIndex(k)))
		}
	default:
		list = append(list, fmt.Sprint(v.Interface()))
	}
	slices.Sort(list)
	return list
}

// compare returns an error for each row that differs from the expectation.
func (w *world) compare(rows database, e expectation, kept map[string]bool) error {
	var wrong []error
	for _, table := range tables {
		for _, id := range slices.Sorted(maps.Keys(rows[table])) {
			r := rows[table][id]
			if want, ok := e[table][id]; ok {
				wrong = append(wrong, w.compareRow(table, id, r, want, kept)...)
			} else if foreign, ok := w.foreign[table][id]; ok {
				wrong = append(wrong, sameForeign(table, id, foreign, r)...)
			} else if table != "NB_Global" && !w.disowned[id] && !kept[id] {
				wrong = append(wrong, fmt.Errorf("row %s of %s belongs to no unit: %s", id, table, show(r)))
			}
		}
		for id, want := range e[table] {
			if _, ok := rows[table][id]; !ok {
				wrong = append(wrong, fmt.Errorf("row %s of %s is absent: %s wants %v", id, table, want.owner, want.columns))
			}
		}
		for id := range w.foreign[table] {
			if _, ok := rows[table][id]; !ok {
				wrong = append(wrong, fmt.Errorf("foreign row %s of %s is gone", id, table))
			}
		}
	}
	return errors.Join(wrong...)
}

func (w *world) compareRow(table, id string, r row, want wanted, kept map[string]bool) (wrong []error) {
	for _, column := range slices.Sorted(maps.Keys(want.columns)) {
		if slices.Contains(theirs, column) {
			continue
		}
		have := atoms(r[column])
		if slices.Contains(shared[table], column) {
			have = slices.DeleteFunc(have, func(element string) bool {
				return w.isForeign(element) || kept[element] && !slices.Contains(want.columns[column], element)
			})
		}
		if !slices.Equal(have, want.columns[column]) {
			wrong = append(wrong, fmt.Errorf("%s of row %s of %s, of %s, is %q, want %q", column, id, table,
				want.owner, have, want.columns[column]))
		}
	}
	return wrong
}

func (w *world) isForeign(id string) bool {
	_, ok := w.foreign["Logical_Switch_Port"][id]
	return ok
}

// kept lists the rows of gateways whose nodes' agents have not reported since the NodeNetworks were recreated. These
// rows must not change. Neither must the rows of an invalid Network, nor the ports of a pod whose annotation cannot be read.
func (o *oracle) kept() map[string]bool {
	kept := map[string]bool{}
	for _, present := range o.rows {
		for id, r := range present {
			owner := unit.Key(ownerOf(r))
			if o.frozen[owner] {
				kept[id] = true
				if owner.Kind() == topology.KindPodPorts { // its damaged row may stay, so that the invariants alone judge sets of policies
					for _, address := range networkAddresses(r) {
						kept[address] = true
					}
				}
			}
			if nn := o.networks[owner.Name()]; owner.Kind() == topology.KindGateway && nn != nil && nn.Status.Chassis == "" {
				kept[id] = true
			}
		}
	}
	return kept
}

// sameForeign returns an error if a foreign row differs from what its owner wrote. In NB_Global Weft owns some
// external IDs.
func sameForeign(table, id string, before, now row) (wrong []error) {
	for column := range before {
		if column == "_version" { // the server changes it at each start
			continue
		}
		x, y := atoms(before[column]), atoms(now[column])
		if table == "NB_Global" {
			if column != "options" && column != "external_ids" {
				continue
			}
			ours := func(pair string) bool { return strings.HasPrefix(pair, "weft.dev/") || pair == "controller_event=true" }
			x, y = slices.DeleteFunc(x, ours), slices.DeleteFunc(y, ours)
		}
		if !slices.Equal(x, y) {
			wrong = append(wrong, fmt.Errorf("%s of foreign row %s of %s is %q, was %q", column, id, table, y, x))
		}
	}
	return wrong
}

func show(r row) string {
	text, err := json.Marshal(r)
	if err != nil {
		return err.Error()
	}
	return string(text)
}
