package probe

import (
	"encoding/json"
	"fmt"
	"net"
	"strings"
	"sync"
)

// message is OVSDB's JSON-RPC message in either direction (RFC 7047 §4).
type message struct {
	ID     any             `json:"id"`
	Method string          `json:"method,omitempty"`
	Params json.RawMessage `json:"params,omitempty"`
	Result json.RawMessage `json:"result,omitempty"`
	Error  any             `json:"error,omitempty"`
}

// Conn is a connection to an ovsdb-server without a library, so that it costs as little as possible next to what is
// measured.
type Conn struct {
	conn    net.Conn
	updated func(params json.RawMessage)

	mu   sync.Mutex
	out  *json.Encoder
	next float64
	wait map[float64]chan message
}

// Dial connects. It calls updated for each update of a monitor, one after the other; updated may be nil.
func Dial(endpoint string, updated func(json.RawMessage)) (*Conn, error) {
	conn, err := net.Dial("unix", strings.TrimPrefix(endpoint, "unix:"))
	if err != nil {
		return nil, err
	}
	r := &Conn{conn: conn, updated: updated, out: json.NewEncoder(conn), wait: map[float64]chan message{}}
	go r.read()
	return r, nil
}

// Close ends the connection.
func (r *Conn) Close() { r.conn.Close() }

func (r *Conn) read() {
	decoder := json.NewDecoder(r.conn)
	for {
		var m message
		if decoder.Decode(&m) != nil {
			r.mu.Lock()
			defer r.mu.Unlock()
			for _, reply := range r.wait {
				close(reply)
			}
			r.wait = nil
			return
		}
		switch m.Method {
		case "echo":
			r.mu.Lock()
			_ = r.out.Encode(map[string]any{"id": m.ID, "result": m.Params, "error": nil})
			r.mu.Unlock()
		case "":
			r.mu.Lock()
			id, _ := m.ID.(float64)
			reply := r.wait[id]
			delete(r.wait, id)
			r.mu.Unlock()
			if reply != nil {
				reply <- m
			}
		default:
			if r.updated != nil {
				r.updated(m.Params)
			}
		}
	}
}

// Call sends a request and waits for its result.
func (r *Conn) Call(method string, params ...any) (json.RawMessage, error) {
	text, err := json.Marshal(params)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	if r.wait == nil {
		r.mu.Unlock()
		return nil, net.ErrClosed
	}
	r.next++
	id, reply := r.next, make(chan message, 1)
	r.wait[id] = reply
	err = r.out.Encode(message{ID: id, Method: method, Params: text})
	r.mu.Unlock()
	if err != nil {
		return nil, err
	}
	m, ok := <-reply
	if !ok {
		return nil, net.ErrClosed
	}
	if m.Error != nil {
		return nil, fmt.Errorf("%s: %v", method, m.Error)
	}
	return m.Result, nil
}
