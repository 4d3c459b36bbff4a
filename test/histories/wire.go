package histories

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net"
	"path/filepath"
	"strings"
	"sync"
)

// wire is one process's connection to the database: a proxy that parses OVSDB's protocol as far as its faults
// require. Its commit points are transactions that write, including the fence's.
type wire struct {
	listener net.Listener
	server   string // the server's socket
	faults   faults
	crashed  func()        // called when the process ends here
	notify   func()        // called at each event that the history waits for
	rows     *gate         // messages from the server: late rows
	held     chan struct{} // closed when a transaction is held
	holdOnce sync.Once

	mu      sync.Mutex
	dead    bool
	refused bool // new connections are refused
	open    map[*joint]struct{}
	commits []string      // operations of committed transactions for units
	late    chan bool     // whether the held transaction was committed
	gone    chan struct{} // closed when the connection of the held transaction ends
	resume  chan struct{}
	ended   sync.WaitGroup
}

// startWire listens on a socket in dir.
func startWire(dir, name, server string, crashed, notify func()) (*wire, error) {
	listener, err := net.Listen("unix", filepath.Join(dir, name))
	if err != nil {
		return nil, err
	}
	w := &wire{listener: listener, server: server, crashed: crashed, notify: notify, rows: newGate(), held: make(chan struct{}),
		open: map[*joint]struct{}{}, late: make(chan bool, 1), gone: make(chan struct{}), resume: make(chan struct{})}
	w.ended.Go(w.serve)
	return w, nil
}

// endpoint is the OVSDB remote of the proxy.
func (w *wire) endpoint() string { return "unix:" + w.listener.Addr().String() }

// kill ends the process's connections permanently.
func (w *wire) kill() {
	w.mu.Lock()
	w.dead = true
	w.mu.Unlock()
	w.listener.Close()
	w.disconnect()
	w.rows.set(false)
	w.release()
}

// disconnect ends the open connections.
func (w *wire) disconnect() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for j := range w.open {
		j.close()
	}
}

// refuse closes new connections immediately, or accepts them again.
func (w *wire) refuse(on bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.refused = on
}

// release forwards a held transaction.
func (w *wire) release() {
	w.mu.Lock()
	defer w.mu.Unlock()
	select {
	case <-w.resume:
	default:
		close(w.resume)
	}
}

func (w *wire) isHeld() bool {
	select {
	case <-w.held:
		return true
	default:
		return false
	}
}

// decision waits for the server's answer to the held transaction. decided is false if its connection ended first.
func (w *wire) decision(ctx context.Context) (decided, committed bool) {
	select {
	case committed = <-w.late:
		return true, committed
	case <-w.gone:
		return false, false
	case <-ctx.Done():
		return false, false
	}
}

// committed returns the operations of the transactions with writes since the last call, a text for each transaction.
func (w *wire) committed() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := w.commits
	w.commits = nil
	return all
}

func (w *wire) serve() {
	for {
		client, err := w.listener.Accept()
		if err != nil {
			return
		}
		w.mu.Lock()
		closed := w.dead || w.refused
		w.mu.Unlock()
		server, err := net.Dial("unix", w.server)
		if closed || err != nil {
			client.Close()
			if err == nil {
				server.Close()
			}
			continue
		}
		j := &joint{wire: w, client: client, server: server, pending: map[string]pending{}}
		w.mu.Lock()
		w.open[j] = struct{}{}
		w.mu.Unlock()
		w.ended.Go(func() {
			j.run()
			w.mu.Lock()
			defer w.mu.Unlock()
			delete(w.open, j)
			if j.holds {
				close(w.gone)
			}
		})
	}
}

// joint is one connection through the proxy.
type joint struct {
	wire           *wire
	client, server net.Conn

	mu      sync.Mutex
	pending map[string]pending // request -> what to do at its reply
	holds   bool               // a transaction of this connection was held
}

// pending is a transaction without a reply.
type pending struct {
	why   purpose
	fault fault
	text  string // its operations
}

func (j *joint) close() {
	j.client.Close()
	j.server.Close()
}

func (j *joint) run() {
	var both sync.WaitGroup
	both.Go(func() { j.toServer(); j.close() })
	both.Go(func() { j.toClient(); j.close() })
	both.Wait()
}

// message is the part of a JSON-RPC message that the proxy reads.
type message struct {
	ID     json.RawMessage   `json:"id"`
	Method string            `json:"method"`
	Params []json.RawMessage `json:"params"`
	Result []struct {
		Error string `json:"error"`
	} `json:"result"`
}

// purpose is the reason of a transaction's writes.
type purpose int

const (
	none  purpose = iota // it only reads, or is a heartbeat, which depends on the clock
	fence                // it takes the epoch
	write                // it changes rows of units
)

// purpose returns the reason of a request's writes.
func (m *message) purpose() purpose {
	if m.Method != "transact" {
		return none
	}
	found := none
	for _, p := range m.Params[1:] {
		var op struct{ Op, Table, Comment string }
		if json.Unmarshal(p, &op) != nil {
			continue
		}
		switch op.Op {
		case "comment":
			if op.Comment == "weft-heartbeat" {
				return none
			}
		case "insert", "update", "mutate", "delete":
			if found = write; op.Table == "NB_Global" {
				found = fence
			}
		}
	}
	return found
}

// text returns the operations of a transaction without operations that only read.
func (m *message) text() string {
	var texts []string
	for _, p := range m.Params[1:] {
		var op struct{ Op string }
		if json.Unmarshal(p, &op) == nil && op.Op != "wait" && op.Op != "select" {
			texts = append(texts, string(p))
		}
	}
	return strings.Join(texts, "\n")
}

var errEnd = errors.New("the fault ends the connection")

func (j *joint) toServer() {
	decoder := json.NewDecoder(j.client)
	for {
		var raw json.RawMessage
		if decoder.Decode(&raw) != nil || j.request(raw) != nil {
			return
		}
	}
}

func (j *joint) request(raw json.RawMessage) error {
	var m message
	if bytes.Contains(raw, []byte(`"transact"`)) {
		if err := json.Unmarshal(raw, &m); err != nil {
			return err
		}
	}
	if why := m.purpose(); why != none {
		if err := j.commitPoint(&m, why); err != nil {
			return err
		}
	}
	_, err := j.server.Write(raw)
	return err
}

// commitPoint applies the fault that is armed for this transaction.
func (j *joint) commitPoint(m *message, why purpose) error {
	what := j.wire.faults.next()
	switch what {
	case cutBefore, conflict:
		return errEnd
	case crashBefore:
		j.wire.crashed()
		return errEnd
	case hold:
		if !j.hold() {
			what = ""
		}
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.pending[string(m.ID)] = pending{why, what, m.text()}
	return nil
}

// hold delays a transaction until release. A wire holds one transaction, once.
func (j *joint) hold() (held bool) {
	j.wire.holdOnce.Do(func() {
		held = true
		j.mu.Lock()
		j.holds = true
		j.mu.Unlock()
		close(j.wire.held)
		j.wire.notify()
		<-j.wire.resume
	})
	return held
}

func (j *joint) toClient() {
	decoder := json.NewDecoder(j.server)
	for {
		var raw json.RawMessage
		if decoder.Decode(&raw) != nil || j.reply(raw) != nil {
			return
		}
		j.wire.rows.await()
		if _, err := j.client.Write(raw); err != nil {
			return
		}
	}
}

// reply counts commits, and drops the reply if the fault requires it.
func (j *joint) reply(raw json.RawMessage) error {
	var m message
	if !bytes.Contains(raw, []byte(`"result"`)) || json.Unmarshal(raw, &m) != nil {
		return nil
	}
	j.mu.Lock()
	sent, ours := j.pending[string(m.ID)]
	delete(j.pending, string(m.ID))
	j.mu.Unlock()
	if !ours {
		return nil
	}
	committed := true
	for _, r := range m.Result {
		committed = committed && r.Error == ""
	}
	j.wire.note(sent, committed)
	switch sent.fault {
	case cutAfter:
		return errEnd
	case crashAfter:
		j.wire.crashed()
		return errEnd
	}
	return nil
}

func (w *wire) note(sent pending, committed bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if committed && sent.why == write {
		w.commits = append(w.commits, sent.text)
	}
	if sent.fault == hold {
		w.late <- committed
	}
}
