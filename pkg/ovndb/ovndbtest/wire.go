package ovndbtest

import (
	"bytes"
	"encoding/json"
	"io"
	"net"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
)

// Flow is what happens to the bytes of one direction of a Wire.
type Flow int

// The flows.
const (
	// Passing bytes arrive.
	Passing Flow = iota
	// Lost bytes were accepted and never arrive, on this connection also when others pass again.
	Lost
	// Stalled bytes are not even accepted, until they pass again.
	Stalled
)

// Wire is a TCP path to a server that a test can spoil in either direction. The connections stay: neither side is told.
type Wire struct {
	listener net.Listener
	scheme   string // of the remote
	network  string // of the server, "unix" or "tcp"
	target   string // its socket or address

	mu       sync.Mutex
	changed  *sync.Cond
	toServer Flow
	toClient Flow
	rate     int    // bytes per second to clients; 0: no limit
	mute     bool   // clients get answers and no updates
	hold     []byte // what is in the bytes to the server that are to be held
	held     chan struct{}
	release  chan struct{}
	arrived  chan struct{} // what was held was written to the server
	cookie   []byte        // of the last monitor
	passed   int64         // bytes to clients
	closed   bool
	open     map[net.Conn]struct{}
}

// StartWire starts a path to the server.
func StartWire(t testing.TB, server *Server) *Wire { return startWire(t, "unix", server.socket()) }

func startWire(t testing.TB, network, target string) *Wire {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &Wire{listener: listener, scheme: "tcp:", network: network, target: target, open: map[net.Conn]struct{}{}}
	w.changed = sync.NewCond(&w.mu)
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.serve()
	}()
	t.Cleanup(func() {
		listener.Close()
		w.close()
		<-done
	})
	return w
}

// Endpoint returns the OVSDB remote of the path.
func (w *Wire) Endpoint() string { return w.scheme + w.listener.Addr().String() }

// Set says what happens to the bytes from now on, of connections that are open and of those to come.
func (w *Wire) Set(toServer, toClient Flow) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.toServer, w.toClient = toServer, toClient
	w.changed.Broadcast()
}

// Limit slows the bytes to clients down; 0 ends that.
func (w *Wire) Limit(bytesPerSecond int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.rate = bytesPerSecond
}

// Hold keeps the next request that has the text. It returns a channel that is closed when that has come, and a function that lets
// it go on to the server, whether its sender still lives or not, and returns when it is there.
func (w *Wire) Hold(text string) (held <-chan struct{}, release func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.hold, w.held, w.release, w.arrived = []byte(text), make(chan struct{}), make(chan struct{}), make(chan struct{})
	came, let, arrived := w.held, w.release, w.arrived
	return came, sync.OnceFunc(func() {
		close(let)
		select {
		case <-came:
			<-arrived
		default: // nothing came
		}
	})
}

// Mute takes the updates of monitors out of what connections that are made from now on bring to clients, as a server does that has
// forgotten a monitor; the answers pass.
func (w *Wire) Mute(mute bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mute = mute
}

// Passed counts the bytes that clients were sent.
func (w *Wire) Passed() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.passed
}

// cookies finds a monitor's name in its request.
var cookies = regexp.MustCompile(`"method":"monitor_cond","params":\["[A-Za-z_]+",(\{[^}]*\})`)

// Inject sends clients an update2 notification (ovsdb-server(7), monitor_cond) of their last monitor, as if it came from the
// server; updates is JSON. Nothing else may be under way.
func (w *Wire) Inject(t testing.TB, updates string) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.cookie == nil {
		t.Fatal("no client has a monitor")
	}
	for client := range w.open {
		if _, err := client.Write([]byte(`{"id":null,"method":"update2","params":[` + string(w.cookie) + `,` + updates + `]}`)); err != nil {
			t.Fatal(err)
		}
	}
}

func (w *Wire) serve() {
	var all sync.WaitGroup
	defer all.Wait()
	for {
		client, err := w.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial(w.network, w.target)
		if err != nil {
			client.Close()
			continue
		}
		w.mu.Lock()
		w.open[client] = struct{}{}
		w.mu.Unlock()
		all.Go(func() { w.join(client, server) })
	}
}

// join copies both ways. What was sent to the server goes there even if its sender is gone.
func (w *Wire) join(client, server net.Conn) {
	var both sync.WaitGroup
	both.Go(func() {
		defer client.Close()
		if w.mutes() {
			copyAnswers(client, server)
			return
		}
		w.copy(client, server, func(chunk []byte) (Flow, func()) { return w.passToClient(chunk), func() {} })
	})
	w.copy(server, client, w.passToServer)
	server.Close()
	both.Wait()
	w.mu.Lock()
	delete(w.open, client)
	w.mu.Unlock()
}

// copy passes chunks on until one side ends; pass says what becomes of one and what to call when it is written.
func (w *Wire) copy(to io.Writer, from io.Reader, pass func([]byte) (Flow, func())) {
	buffer := make([]byte, 64<<10)
	lost := false
	for {
		n, err := from.Read(buffer)
		if n > 0 {
			flow, written := pass(buffer[:n])
			lost = lost || flow == Lost
			if !lost {
				_, err := to.Write(buffer[:n])
				written()
				if err != nil {
					return
				}
			}
		}
		if err != nil {
			return
		}
	}
}

func (w *Wire) mutes() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.mute
}

// copyAnswers passes every message on that is no update of a monitor.
func copyAnswers(client io.Writer, server io.Reader) {
	for decoder := json.NewDecoder(server); ; {
		var message json.RawMessage
		if err := decoder.Decode(&message); err != nil {
			return
		}
		var kind struct{ Method string }
		if err := json.Unmarshal(message, &kind); err == nil && strings.HasPrefix(kind.Method, "update") {
			continue
		}
		if _, err := client.Write(message); err != nil {
			return
		}
	}
}

func (w *Wire) passToServer(chunk []byte) (Flow, func()) {
	w.mu.Lock()
	if found := cookies.FindSubmatch(chunk); found != nil {
		w.cookie = bytes.Clone(found[1])
	}
	if w.hold != nil && bytes.Contains(chunk, w.hold) {
		w.hold = nil
		close(w.held)
		release, arrived := w.release, w.arrived
		w.mu.Unlock()
		<-release
		return Passing, func() { close(arrived) }
	}
	defer w.mu.Unlock()
	for w.toServer == Stalled && !w.closed {
		w.changed.Wait()
	}
	return w.toServer, func() {}
}

func (w *Wire) passToClient(chunk []byte) Flow {
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.toClient == Stalled && !w.closed {
		w.changed.Wait()
	}
	if w.rate > 0 {
		pause := time.Duration(len(chunk)) * time.Second / time.Duration(w.rate)
		w.mu.Unlock()
		time.Sleep(pause) // this is what a slow path does
		w.mu.Lock()
	}
	w.passed += int64(len(chunk))
	return w.toClient
}

func (w *Wire) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	w.changed.Broadcast()
	for client := range w.open {
		client.Close()
	}
}
