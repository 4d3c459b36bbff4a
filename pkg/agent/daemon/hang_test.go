package daemon

import (
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
)

// control is a control socket that has an answer for each command. A command without an answer hangs.
type control struct {
	mu      sync.Mutex
	answers map[string]string
	changed *sync.Cond
}

// newControl listens in dir as ovn-controller does.
func newControl(t *testing.T, dir string) *control {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, "ovn-controller.pid"), []byte("17\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("unix", filepath.Join(dir, "ovn-controller.17.ctl"))
	if err != nil {
		t.Fatal(err)
	}
	s := &control{answers: map[string]string{"version": "ovn-controller 25.03.0", "connection-status": "connected"}}
	s.changed = sync.NewCond(&s.mu)
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { s.serve(conn) })
		}
	})
	t.Cleanup(func() {
		s.setAnswer("version", "")
		s.setAnswer("connection-status", "")
		listener.Close()
		serving.Wait()
	})
	return s
}

func (s *control) serve(conn net.Conn) {
	defer conn.Close()
	for decoder := json.NewDecoder(conn); ; {
		var request struct{ Method string }
		if decoder.Decode(&request) != nil {
			return
		}
		s.mu.Lock()
		answer, ok := s.answers[request.Method]
		for ; !ok; answer, ok = s.answers[request.Method] {
			s.changed.Wait()
		}
		s.mu.Unlock()
		if json.NewEncoder(conn).Encode(map[string]any{"id": 0, "error": nil, "result": answer + "\n"}) != nil {
			return
		}
	}
}

func (s *control) setAnswer(command, answer string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answers[command] = answer
	s.changed.Broadcast()
}

// hang removes all answers.
func (s *control) hang() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.answers)
}

// watched runs a daemon's watch until the test ends.
func watched(t *testing.T) (s *control, d *Daemon, changed <-chan struct{}) {
	t.Helper()
	dir, err := os.MkdirTemp("", "weft-ovn-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	s = newControl(t, dir)
	changes := make(chan struct{}, 10)
	d = &Daemon{
		Program: "ovn-controller", Dir: dir, Query: "connection-status", Want: "connected", Log: logr.Discard(),
		Changed: func() { changes <- struct{}{} }, Every: 20 * time.Millisecond, Silence: 200 * time.Millisecond,
	}
	done := make(chan error, 1)
	go func() { done <- d.Run(t.Context()) }()
	t.Cleanup(func() {
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return s, d, changes
}

// A daemon that hangs keeps its connections, as if it were stopped or in an endless loop. State must fail nevertheless.
func TestADaemonThatHangsDoesNotAnswer(t *testing.T) {
	s, d, changed := watched(t)
	<-changed
	if version, err := d.State(); err != nil || version != "25.03.0" {
		t.Fatalf("version %q, %v", version, err)
	}
	s.hang()
	<-changed
	if _, err := d.State(); err == nil {
		t.Error("State succeeds while the daemon hangs")
	}
	s.setAnswer("version", "ovn-controller 25.03.0")
	s.setAnswer("connection-status", "connected")
	<-changed
	if _, err := d.State(); err != nil {
		t.Errorf("State after the daemon answers again: %v", err)
	}
}

// Trouble reports that a running ovn-controller is not connected to its database, as with a bad certificate, and reports
// nothing after it has connected.
func TestADaemonSaysWhatIsAmiss(t *testing.T) {
	s, d, changed := watched(t)
	<-changed
	if why := d.Trouble(); why != "" {
		t.Fatalf("Trouble returns %q without any trouble", why)
	}
	for range 2 {
		s.setAnswer("connection-status", "not connected")
		<-changed
		if why := d.Trouble(); why != "not connected" {
			t.Errorf("Trouble returns %q", why)
		}
		if _, err := d.State(); err != nil {
			t.Errorf("State of a running daemon: %v", err)
		}
		s.setAnswer("connection-status", "connected")
		<-changed
		if why := d.Trouble(); why != "" {
			t.Errorf("Trouble returns %q after the daemon has connected", why)
		}
	}
}
