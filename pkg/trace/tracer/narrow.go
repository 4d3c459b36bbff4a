package tracer

import (
	"bytes"
	"context"
	"encoding/json"
	"regexp"
	"slices"
	"strings"

	"github.com/weft-network/weft/pkg/ovn/wire"
)

// narrowing leaves out rows that ovn-trace would read and not need.
type narrowing struct {
	literals
	left      *leftOut
	datapaths map[string]bool // by UUID
	flows     []any           // clauses of a monitor: flows of one datapath, and flows of groups
	others    []any           // clauses of a monitor: other rows of the datapaths
}

// patch are the types of ports that lead to other datapaths, which ovn-trace reads of all datapaths.
var patch = []string{"patch", "l3gateway", "chassisredirect"}

// unread are large tables that ovn-trace does not read.
var unread = []string{"Load_Balancer", "Chassis_Template_Var", "Chassis_Private", "Encap", "IP_Multicast"}

// narrow reads the groups of the datapaths.
func (t Tracer) narrow(ctx context.Context, k knowledge, r reads) (n narrowing, err error) {
	n = narrowing{literals: r.literals, left: newLeftOut(), datapaths: map[string]bool{}}
	var operations []wire.Operation
	for _, name := range r.datapaths {
		id := k.datapaths[name]
		n.datapaths[id] = true
		n.flows = append(n.flows, clause("logical_datapath", "==", id))
		n.others = append(n.others, clause("datapath", "==", id))
		operations = append(operations, selectWhere("Logical_DP_Group", wire.Includes("datapaths", wire.UUIDOf(id))))
	}
	found, err := read(ctx, t.Southbound, southboundName, operations...)
	if err != nil {
		return n, err
	}
	seen := map[string]bool{}
	for _, group := range slices.Concat(found...) {
		if id := group.UUID(); !seen[id] {
			seen[id] = true
			n.flows = append(n.flows, clause("logical_dp_group", "==", id))
		}
	}
	return n, nil
}

func clause(column, function, uuid string) any {
	return []any{column, function, wire.UUIDOf(uuid)}
}

// conditions returns the clauses of each table of a monitor that has less than all rows.
func (n narrowing) conditions() map[string][]any {
	ports := slices.Clone(n.others)
	for _, kind := range patch {
		ports = append(ports, []any{"type", "==", kind})
	}
	all := map[string][]any{"Logical_Flow": n.flows, "Multicast_Group": n.others, "Port_Binding": ports}
	for _, table := range unread {
		all[table] = []any{false}
	}
	return all
}

// request gives ovn-trace's monitor of the southbound database conditions. Other messages pass as they are, as does a
// message that cannot be changed: then ovn-trace reads more rows than it needs.
func (n narrowing) request(message []byte) []byte {
	var request struct {
		ID     json.RawMessage   `json:"id"`
		Method string            `json:"method"`
		Params []json.RawMessage `json:"params"`
	}
	const tablesAt = 2 // of the parameters: database, monitor, tables
	if json.Unmarshal(message, &request) != nil || !strings.HasPrefix(request.Method, "monitor_cond") || len(request.Params) <= tablesAt {
		return message
	}
	var tables map[string][]map[string]any
	if json.Unmarshal(request.Params[tablesAt], &tables) != nil || tables["Logical_Flow"] == nil {
		return message // of OVSDB's own database
	}
	for table, where := range n.conditions() {
		for _, monitor := range tables[table] {
			monitor["where"] = where
		}
	}
	var err error
	if request.Params[tablesAt], err = encode(tables); err != nil {
		return message
	}
	return encodeOr(message, request)
}

// reply leaves out flows, the groups of ports and addresses that no flow names, and the datapaths of groups, because
// ovn-trace parses a group's flows once for each of its datapaths.
func (n narrowing) reply(message []byte) []byte {
	var reply struct {
		ID     json.RawMessage   `json:"id"`
		Result []json.RawMessage `json:"result"`
		Error  json.RawMessage   `json:"error"`
	}
	const tablesAt = 2                               // of the result of monitor_cond_since: found, transaction, tables
	var tables map[string]map[string]json.RawMessage // table -> UUID -> row
	if json.Unmarshal(message, &reply) != nil || len(reply.Result) <= tablesAt ||
		json.Unmarshal(reply.Result[tablesAt], &tables) != nil {
		return message
	}
	var matches strings.Builder
	keep(tables["Logical_Flow"], func(row initial) bool {
		out := n.left.add(n.literals, row.Match)
		if !out {
			matches.WriteString(row.Match + "\n")
		}
		return !out
	})
	used := map[string]bool{}
	for _, name := range group.FindAllString(matches.String(), -1) {
		used[name[1:]] = true
	}
	keep(tables["Address_Set"], func(row initial) bool { return used[row.Name] })
	keep(tables["Port_Group"], func(row initial) bool {
		_, name, _ := strings.Cut(row.Name, "_") // after the tunnel key of a switch
		return used[name]
	})
	n.prune(tables["Logical_DP_Group"])
	var err error
	if reply.Result[tablesAt], err = encode(tables); err != nil {
		return message
	}
	return encodeOr(message, reply)
}

// group is the name of a group of ports or addresses in a match.
var group = regexp.MustCompile(`[@$][\w.-]+`)

// initial is what narrowing reads of a row.
type initial struct{ Match, Name string }

// keep deletes rows.
func keep(rows map[string]json.RawMessage, needs func(initial) bool) {
	for id, text := range rows {
		var update struct {
			Initial initial `json:"initial"`
		}
		if json.Unmarshal(text, &update) == nil && !needs(update.Initial) {
			delete(rows, id)
		}
	}
}

// prune takes other datapaths out of groups.
func (n narrowing) prune(groups map[string]json.RawMessage) {
	for id, text := range groups {
		var update map[string]wire.Row
		if wire.Decode(text, &update) != nil {
			continue
		}
		for _, row := range update {
			members := []any{}
			for _, datapath := range row.References("datapaths") {
				if n.datapaths[datapath] {
					members = append(members, wire.UUIDOf(datapath))
				}
			}
			row["datapaths"] = []any{"set", members}
		}
		groups[id] = encodeOr(text, update)
	}
}

// encode encodes a decoded message, and leaves the texts of flows as they are.
func encode(value any) (json.RawMessage, error) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return nil, err
	}
	return bytes.TrimSpace(text.Bytes()), nil
}

// encodeOr encodes a value, and returns otherwise if it cannot.
func encodeOr(otherwise []byte, value any) json.RawMessage {
	if text, err := encode(value); err == nil {
		return text
	}
	return otherwise
}
