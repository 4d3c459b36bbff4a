package probe

import (
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
)

// controllerColumns are the columns of each table that an ovn-controller of OVN 25.03 monitors.
//
//go:embed controller.json
var controllerColumns []byte

// Where holds the conditions of a monitor: table -> clauses. A row must match one clause. A table without an entry
// is monitored completely.
type Where map[string][]any

// Local is the part of the southbound database that concerns one node.
type Local struct {
	// Chassis is the node's name there and ChassisUUID its row. Datapaths are the rows of the datapaths that its
	// packets may pass on the node, by tunnel key.
	Chassis, ChassisUUID string
	Datapaths            map[int]string
}

// Some returns the conditions of an ovn-controller without ovn-monitor-all after it has found its datapaths
// (ovn-controller(8); update_sb_monitors in its source).
func Some(node Local) Where {
	chassis := row(node.ChassisUUID)
	where := Where{
		"Port_Binding": {is("type", "patch"), is("type", "chassisredirect"), is("type", "external"),
			is("chassis", chassis), is("requested_chassis", chassis),
			includes("options", pair("l2gateway-chassis", node.Chassis)), includes("options", pair("l3gateway-chassis", node.Chassis))},
		// Flows of several datapaths are sent completely, because groups change their UUIDs.
		"Logical_Flow":         {[]any{"logical_dp_group", "!=", []any{"set", []any{}}}},
		"Controller_Event":     {is("chassis", chassis)},
		"IGMP_Group":           {is("chassis", chassis)},
		"Chassis_Private":      {is("name", node.Chassis)},
		"Chassis_Template_Var": {is("chassis", node.Chassis)},
		"MAC_Binding":          {}, "FDB": {}, "Multicast_Group": {}, "DNS": {}, "IP_Multicast": {},
	}
	for key, id := range node.Datapaths {
		for table, column := range map[string]string{"Port_Binding": "datapath", "Logical_Flow": "logical_datapath",
			"MAC_Binding": "datapath", "Multicast_Group": "datapath", "IP_Multicast": "datapath"} {
			where[table] = append(where[table], is(column, row(id)))
		}
		where["FDB"] = append(where["FDB"], is("dp_key", key))
		where["DNS"] = append(where["DNS"], includes("datapaths", row(id)))
	}
	return where
}

func is(column string, value any) []any       { return []any{column, "==", value} }
func includes(column string, value any) []any { return []any{column, "includes", value} }
func row(uuid string) []any                   { return []any{"uuid", uuid} }
func pair(key, value string) []any            { return []any{"map", []any{[]any{key, value}}} }

// Monitor is a monitor request: table -> request.
type Monitor map[string]any

// Controller returns the monitor of an ovn-controller: with conditions, or without if where is nil, as with
// ovn-monitor-all.
func Controller(where Where) (Monitor, error) {
	var columns map[string][]string
	if err := json.Unmarshal(controllerColumns, &columns); err != nil {
		return nil, err
	}
	monitor := Monitor{}
	for table, names := range columns {
		part := map[string]any{"columns": names}
		if clauses, ok := where[table]; ok {
			part["where"] = clauses
		}
		monitor[table] = []any{part}
	}
	return monitor, nil
}

// Node returns the monitor of Weft's own agent (pkg/agent, pkg/ovndb/southbound).
func Node(chassis string) Monitor {
	table := func(where []any, columns ...string) any {
		return []any{map[string]any{"columns": columns, "where": where}}
	}
	return Monitor{
		"Port_Binding": table([]any{includes("options", pair("requested-chassis", chassis))}, "chassis", "datapath",
			"external_ids", "gateway_chassis", "ha_chassis_group", "logical_port",
			"mac", "mirror_rules", "options", "port_security", "requested_chassis", "tunnel_key", "type", "up"),
		"Chassis":          table([]any{is("name", chassis)}, "encaps", "external_ids", "hostname", "name", "other_config"),
		"Controller_Event": table([]any{true}, "chassis", "event_info", "event_type", "seq_num"),
	}
}

// Agent is a client with one monitor that counts received data and discards it.
type Agent struct {
	// Whole is the size of the first copy in bytes.
	Whole int64

	conn    net.Conn
	ended   chan struct{}
	updates atomic.Int64
	bytes   atomic.Int64
	read    messages
	reply   chan error
	replied sync.Once
}

// Connect returns when the agent has received its first copy.
func Connect(endpoint string, monitor Monitor) (*Agent, error) {
	conn, err := net.Dial("unix", strings.TrimPrefix(endpoint, "unix:"))
	if err != nil {
		return nil, err
	}
	a := &Agent{conn: conn, reply: make(chan error, 1), ended: make(chan struct{})}
	a.read.whole = a.message
	go a.receive()
	request := map[string]any{"id": 1, "method": "monitor_cond_since", "params": []any{"OVN_Southbound",
		[]any{"monid", "OVN_Southbound"}, monitor, "00000000-0000-0000-0000-000000000000"}}
	if err = json.NewEncoder(conn).Encode(request); err == nil {
		err = <-a.reply
	}
	if err != nil {
		a.Close()
	}
	return a, err
}

// Close ends the connection.
func (a *Agent) Close() { a.conn.Close() }

// Ended is closed when the connection has ended, from whichever side.
func (a *Agent) Ended() <-chan struct{} { return a.ended }

// Updates returns the number of updates after the first copy, and their bytes.
func (a *Agent) Updates() (n, bytes int64) { return a.updates.Load(), a.bytes.Load() }

func (a *Agent) receive() {
	defer close(a.ended)
	buffer := make([]byte, 1<<16)
	for {
		n, err := a.conn.Read(buffer)
		a.read.take(buffer[:n])
		if err != nil {
			a.answered(fmt.Errorf("monitor: %w", err))
			return
		}
	}
}

func (a *Agent) message(m ends) {
	switch {
	case m.has(`"method":"echo"`):
		_, _ = a.conn.Write([]byte(`{"id":"echo","result":[],"error":null}`))
	case m.has(`"method":`):
		a.updates.Add(1)
		a.bytes.Add(m.size)
	case m.has(`"error":null`):
		a.Whole = m.size
		a.answered(nil)
	default:
		a.answered(errors.New("monitor: " + string(m.first)))
	}
}

func (a *Agent) answered(err error) { a.replied.Do(func() { a.reply <- err }) }
