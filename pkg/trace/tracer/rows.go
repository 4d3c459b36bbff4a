package tracer

import (
	"context"
	"slices"
	"strings"

	"github.com/weft-network/weft/pkg/ovn/wire"
	"github.com/weft-network/weft/pkg/topology"
	"github.com/weft-network/weft/pkg/trace"
	"github.com/weft-network/weft/pkg/unit"
)

// The databases' names.
const (
	northbound     = "OVN_Northbound"
	southboundName = "OVN_Southbound"
)

// named are the tables whose rows have a name.
var named = map[string]bool{"ACL": true, "Load_Balancer": true}

// start is the length of the start of a UUID by which flows name their rows.
const start = 8

// name finds the rows behind the flows.
func (t Tracer) name(ctx context.Context, used []flow, answer *trace.Answer) error {
	rows, err := t.rows(ctx, used)
	if err != nil {
		return err
	}
	for _, f := range used {
		traced := &answer.Traces[f.trace]
		for _, table := range tablesOf(f.stage) {
			r, ok := rows[table+" "+f.row]
			if !ok {
				continue
			}
			if strings.HasSuffix(r.Rule, trace.Isolation) {
				if r.Also, err = t.isolating(ctx, f, r); err != nil {
					return err
				}
			}
			if traced.Rows == nil {
				traced.Rows = map[string]trace.Row{}
			}
			traced.Rows[f.uuid] = r
		}
	}
	return nil
}

// rows returns the rows of the flows' tables by table and start of the UUID.
func (t Tracer) rows(ctx context.Context, used []flow) (map[string]trace.Row, error) {
	var tables []string
	var operations []wire.Operation
	for _, f := range used {
		for _, table := range tablesOf(f.stage) {
			if slices.Contains(tables, table) {
				continue
			}
			columns := []string{"external_ids"}
			if named[table] {
				columns = append(columns, "name")
			}
			tables, operations = append(tables, table), append(operations, selectAll(table, columns...))
		}
	}
	found, err := read(ctx, t.Northbound, northbound, operations...)
	if err != nil {
		return nil, err
	}
	rows := map[string]trace.Row{}
	for i, table := range tables {
		for _, r := range found[i] {
			ids := r.Pairs("external_ids")
			rows[table+" "+r.UUID()[:start]] = trace.Row{Table: table, Name: r.Text("name"),
				Owner: unit.Key(ids[unit.OwnerKey]), Rule: ids[topology.RuleKey]}
		}
	}
	return rows, nil
}

// isolating returns the other policies that isolate the port of a flow in the same direction. OVN's flow is that of
// any of them.
func (t Tracer) isolating(ctx context.Context, f flow, of trace.Row) ([]unit.Key, error) {
	ports, err := read(ctx, t.Northbound, northbound, selectIs("Logical_Switch_Port", "name", f.port))
	if err != nil || len(ports[0]) == 0 {
		return nil, err
	}
	member := wire.Includes("ports", wire.UUIDOf(ports[0][0].UUID()))
	groups, err := read(ctx, t.Northbound, northbound, selectWhere("Port_Group", member, "acls"))
	if err != nil {
		return nil, err
	}
	var operations []wire.Operation
	for _, group := range groups[0] {
		for _, acl := range group.References("acls") {
			operations = append(operations, selectIs("ACL", "_uuid", wire.UUIDOf(acl), "external_ids"))
		}
	}
	acls, err := read(ctx, t.Northbound, northbound, operations...)
	if err != nil {
		return nil, err
	}
	var also []unit.Key
	for _, found := range acls {
		for _, r := range found {
			ids := r.Pairs("external_ids")
			if owner := unit.Key(ids[unit.OwnerKey]); ids[topology.RuleKey] == of.Rule && owner != of.Owner {
				also = append(also, owner)
			}
		}
	}
	slices.Sort(also)
	return slices.Compact(also), nil
}
