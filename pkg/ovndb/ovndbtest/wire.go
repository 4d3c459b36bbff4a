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

// Flow is how a Wire treats the bytes of one direction.
type Flow int

// The flows.
const (
	// Passing bytes arrive.
	Passing Flow = iota
	// Lost bytes are accepted and never arrive. The connection stays lost in this direction even when other bytes
	// pass again.
	Lost
	// Stalled bytes are not even accepted until they pass again.
	Stalled
)

// Wire is a TCP path to a server that a test can break in either direction. The connections stay open, so that
// neither side notices.
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
	mute     bool   // clients receive replies but no updates
	hold     []byte // a request to the server that contains this text is held
	held     chan struct{}
	release  chan struct{}
	arrived  chan struct{} // closed when the held request was written to the server
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

// Set changes how the Wire treats bytes from now on, on existing and future connections.
func (w *Wire) Set(toServer, toClient Flow) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.toServer, w.toClient = toServer, toClient
	w.changed.Broadcast()
}

// Limit limits the rate of bytes to clients. 0 removes the limit.
func (w *Wire) Limit(bytesPerSecond int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.rate = bytesPerSecond
}

// Hold holds the next request that contains the text. The returned channel is closed when the request arrives.
// release passes it to the server, even if its sender is gone, and returns when it is written.
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
		default: // no request arrived
		}
	})
}

// Mute makes connections that are opened from now on drop the updates of monitors, as a server does that has
// forgotten a monitor. Replies still pass.
func (w *Wire) Mute(mute bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mute = mute
}

// Passed counts the bytes sent to clients.
func (w *Wire) Passed() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.passed
}

// cookies finds a monitor's name in its request.
var cookies = regexp.MustCompile(`"method":"monitor_cond","params":\["[A-Za-z_]+",(\{[^}]*\})`)

// Inject sends clients an update2 notification (ovsdb-server(7), monitor_cond) of their last monitor, as if it came
// from the server. updates is JSON. No other message may be in flight.
func (w *Wire) Inject(t testing.TB, updates string) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.cookie == nil {
		t.Fatal("no client has a monitor")
	}
	for client := range w.open {
		if _, err := client.Write([]byte(`{"id":null,"method":"update2","params":[` + string(w.cookie) + `,` +
			updates + `]}`)); err != nil {
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

// join copies both ways. Bytes sent to the server are delivered even if their sender is gone.
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

// copy passes chunks on until one side ends. pass decides how a chunk is treated, and returns a function to call when
// the chunk is written.
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

// copyAnswers passes on every message except updates of monitors.
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
		time.Sleep(pause) // the delay of a slow path
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
