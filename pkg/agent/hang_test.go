package agent

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

// control is a control socket that answers each command as it is told, and hangs where it is told nothing.
type control struct {
	mu      sync.Mutex
	answers map[string]string
	told    *sync.Cond
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
	s.told = sync.NewCond(&s.mu)
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
		s.say("version", "")
		s.say("connection-status", "")
		listener.Close()
		serving.Wait()
	})
	return s
}

func (s *control) serve(conn net.Conn) {
	defer conn.Close()
	for decoder := json.NewDecoder(conn); ; {
		var asked struct{ Method string }
		if decoder.Decode(&asked) != nil {
			return
		}
		s.mu.Lock()
		answer, ok := s.answers[asked.Method]
		for ; !ok; answer, ok = s.answers[asked.Method] {
			s.told.Wait()
		}
		s.mu.Unlock()
		if json.NewEncoder(conn).Encode(map[string]any{"id": 0, "error": nil, "result": answer + "\n"}) != nil {
			return
		}
	}
}

func (s *control) say(command, answer string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answers[command] = answer
	s.told.Broadcast()
}

// hang lets nothing be answered until it is said again.
func (s *control) hang() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.answers)
}

// watched runs a daemon's watch for the time of the test.
func watched(t *testing.T) (s *control, d *daemon, changed <-chan struct{}) {
	t.Helper()
	dir, err := os.MkdirTemp("", "weft-ovn-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	s = newControl(t, dir)
	news := make(chan struct{}, 10)
	d = &daemon{program: "ovn-controller", dir: dir, ask: "connection-status", want: "connected", log: logr.Discard(), changed: func() { news <- struct{}{} },
		every: 20 * time.Millisecond, silence: 200 * time.Millisecond}
	done := make(chan error, 1)
	go func() { done <- d.run(t.Context()) }()
	t.Cleanup(func() {
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return s, d, news
}

// TestADaemonThatHangsDoesNotAnswer: its connections stay, as those of one that is stopped or goes round in circles, and it is told nevertheless.
func TestADaemonThatHangsDoesNotAnswer(t *testing.T) {
	s, d, changed := watched(t)
	<-changed
	if version, err := d.state(); err != nil || version != "25.03.0" {
		t.Fatalf("version %q, %v", version, err)
	}
	s.hang()
	<-changed
	if _, err := d.state(); err == nil {
		t.Error("it hangs and is said to run")
	}
	s.say("version", "ovn-controller 25.03.0")
	s.say("connection-status", "connected")
	<-changed
	if _, err := d.state(); err != nil {
		t.Errorf("it answers again: %v", err)
	}
}

// TestADaemonSaysWhatIsAmiss: an ovn-controller that runs and has lost its database, for which its certificate suffices, is told, and forgotten when it has it.
func TestADaemonSaysWhatIsAmiss(t *testing.T) {
	s, d, changed := watched(t)
	<-changed
	if why := d.trouble(); why != "" {
		t.Fatalf("all is well and it says %q", why)
	}
	for range 2 {
		s.say("connection-status", "not connected")
		<-changed
		if why := d.trouble(); why != "not connected" {
			t.Errorf("it says %q", why)
		}
		if _, err := d.state(); err != nil {
			t.Errorf("it runs all the same: %v", err)
		}
		s.say("connection-status", "connected")
		<-changed
		if why := d.trouble(); why != "" {
			t.Errorf("it is connected again and says %q", why)
		}
	}
}
