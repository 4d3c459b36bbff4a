package histories

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"sync"
)

// row is a row in OVSDB's protocol format (RFC 7047), without libovsdb.
type row map[string]json.RawMessage

// database is a whole database: table -> UUID -> row.
type database map[string]map[string]row

// mirror follows the northbound database with its own monitor, independent of the operator under test.
type mirror struct {
	notify func()
	// observe is called at each change with all rows, and with the former content of the changed rows; nil: nobody observes.
	observe func(rows, before database)

	mu   sync.Mutex
	conn net.Conn
	rows database
	up   bool
	next int
	wait map[int]chan []json.RawMessage
}

func newMirror(notify func(), observe func(rows, before database)) *mirror {
	return &mirror{notify: notify, observe: observe}
}

// tables are the tables that the mirror follows: all that Weft writes, and all in which the histories put foreign
// rows.
var tables = []string{"NB_Global", "Logical_Switch", "Logical_Switch_Port", "Logical_Router", "Logical_Router_Port",
	"Logical_Router_Static_Route",
	"Logical_Router_Policy", "NAT", "Port_Group", "Address_Set", "ACL", "DHCP_Options",
	"QoS", "Load_Balancer", "Load_Balancer_Group", "Chassis_Template_Var", "Meter", "Meter_Band"}

// connect starts following the server, and returns when the copy is complete.
func (m *mirror) connect(socket string) error {
	conn, err := net.Dial("unix", socket)
	if err != nil {
		return err
	}
	m.mu.Lock()
	m.conn, m.rows, m.wait, m.up = conn, database{}, map[int]chan []json.RawMessage{}, true
	m.mu.Unlock()
	go m.read(conn)
	monitored := map[string]any{}
	for _, table := range tables {
		monitored[table] = map[string]any{}
	}
	_, err = m.call("monitor", "OVN_Northbound", nil, monitored)
	return err
}

// close ends the connection.
func (m *mirror) close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.conn != nil {
		m.conn.Close()
	}
	m.up = false
}

// rpc is a JSON-RPC message in either direction.
type rpc struct {
	ID     any             `json:"id"`
	Method string          `json:"method,omitempty"`
	Params json.RawMessage `json:"params,omitempty"`
	Result json.RawMessage `json:"result,omitempty"`
	Error  any             `json:"error,omitempty"`
}

func (m *mirror) read(conn net.Conn) {
	decoder := json.NewDecoder(conn)
	for {
		var message rpc
		if decoder.Decode(&message) != nil {
			m.lost(conn)
			return
		}
		m.take(conn, message)
	}
}

// lost fails all requests that wait for a reply.
func (m *mirror) lost(conn net.Conn) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.conn != conn {
		return
	}
	m.up = false
	for id, reply := range m.wait {
		delete(m.wait, id)
		close(reply)
	}
}

func (m *mirror) take(conn net.Conn, message rpc) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.conn != conn {
		return
	}
	switch message.Method {
	case "echo":
		_ = json.NewEncoder(conn).Encode(map[string]any{"id": message.ID, "result": message.Params, "error": nil})
	case "update":
		var params []json.RawMessage
		if json.Unmarshal(message.Params, &params) == nil && len(params) == 2 {
			m.update(params[1])
		}
	case "":
		id, _ := message.ID.(float64)
		reply := m.wait[int(id)]
		delete(m.wait, int(id))
		var results []json.RawMessage
		if json.Unmarshal(message.Result, &results) != nil { // the reply to monitor holds the first update
			m.update(message.Result)
		}
		if reply != nil {
			reply <- results
		}
	}
	m.notify()
}

// update applies the new rows of <table-updates> (RFC 7047 §4.1.6). The caller holds m.mu.
func (m *mirror) update(text json.RawMessage) {
	var updates map[string]map[string]struct{ New row }
	if json.Unmarshal(text, &updates) != nil {
		return
	}
	before := database{}
	for table, changes := range updates {
		if m.rows[table] == nil {
			m.rows[table] = map[string]row{}
		}
		before[table] = map[string]row{}
		for uuid, change := range changes {
			before[table][uuid] = m.rows[table][uuid]
			if m.rows[table][uuid] = change.New; change.New == nil {
				delete(m.rows[table], uuid)
			}
		}
	}
	if m.observe != nil {
		m.observe(m.rows, before)
	}
}

// call sends a request and waits for its reply.
func (m *mirror) call(method string, params ...any) ([]json.RawMessage, error) {
	text, err := json.Marshal(params)
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	if !m.up {
		m.mu.Unlock()
		return nil, io.ErrClosedPipe
	}
	m.next++
	id, reply := m.next, make(chan []json.RawMessage, 1)
	m.wait[id] = reply
	err = json.NewEncoder(m.conn).Encode(rpc{ID: id, Method: method, Params: text})
	m.mu.Unlock()
	if err != nil {
		return nil, err
	}
	results, ok := <-reply
	if !ok {
		return nil, io.ErrUnexpectedEOF
	}
	return results, nil
}

// transact makes a foreign write: a vandal's, or another user's of the database.
func (m *mirror) transact(operations ...any) error {
	results, err := m.call("transact", append([]any{"OVN_Northbound"}, operations...)...)
	if err != nil {
		return err
	}
	for _, text := range results {
		var result struct{ Error, Details string }
		if json.Unmarshal(text, &result) == nil && result.Error != "" {
			return fmt.Errorf("%s: %s", result.Error, result.Details)
		}
	}
	return nil
}

// snapshot returns the present database. Its rows are never modified.
func (m *mirror) snapshot() (database, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	copied := database{}
	for table, rows := range m.rows {
		copied[table] = maps.Clone(rows)
	}
	return copied, m.up
}
