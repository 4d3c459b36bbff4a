package egressip

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
	"testing"
)

// TestProberCountsMissesInARow: a node becomes unreachable after enough misses and reachable with its first reply.
// Each change is reported.
func TestProberCountsMissesInARow(t *testing.T) {
	p := NewProber(nil, nil, 0, 3, nil)
	silent := errors.New("no answer")
	for i, step := range []struct {
		n1, n2    error
		reachable bool // n1
		changed   bool
	}{
		{silent, nil, true, false}, {silent, nil, true, false}, {nil, nil, true, false},
		{silent, nil, true, false}, {silent, nil, true, false}, {silent, nil, false, true},
		{silent, nil, false, false}, {nil, nil, true, true},
	} {
		if changed := p.learn(map[string]error{"n1": step.n1, "n2": step.n2}); changed != step.changed {
			t.Errorf("step %d: changed %t", i, changed)
		}
		if got := p.Reachable("n1"); got != step.reachable || !p.Reachable("n2") {
			t.Errorf("step %d: n1 is reachable %t", i, got)
		}
	}
	for range 3 {
		p.learn(map[string]error{"n1": silent})
	}
	p.learn(nil) // it is no longer a target, so its misses are dropped
	if !p.Reachable("n1") {
		t.Error("a node without probes is unreachable")
	}
}

// TestProberWithoutRepliesReportsNoNode: silent nodes are reported only if another node responds, and forgotten when
// they are no longer targets.
func TestProberWithoutRepliesReportsNoNode(t *testing.T) {
	p := NewProber(nil, nil, 0, 1, nil)
	silent := errors.New("no answer")
	for i, step := range []struct {
		answers map[string]error
		want    string
		changed bool
	}{
		{map[string]error{"n1": nil, "n2": nil}, "", false},
		{map[string]error{"n1": nil, "n3": silent, "n2": silent}, "n2 n3", true},
		{map[string]error{"n1": silent, "n2": silent}, "", true},
		{map[string]error{"n1": nil, "n2": silent}, "n2", true},
		{map[string]error{"n1": nil}, "", true},
		{nil, "", false},
	} {
		if changed := p.learn(step.answers); changed != step.changed {
			t.Errorf("step %d: changed %t", i, changed)
		}
		if got := strings.Join(p.Unreachable(), " "); got != step.want {
			t.Errorf("step %d: %q is unreachable, want %q", i, got, step.want)
		}
	}
}

// TestProbeAcceptsAClosedPort: an agent that is being replaced moves no address.
func TestProbeAcceptsAClosedPort(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	probe := TCPProbe(listener.Addr().(*net.TCPAddr).Port)
	local := netip.MustParseAddr("127.0.0.1")
	if err := probe(t.Context(), local); err != nil {
		t.Errorf("open: %v", err)
	}
	listener.Close()
	if err := probe(t.Context(), local); err != nil {
		t.Errorf("closed: %v", err)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if err := probe(over, local); err == nil {
		t.Error("without a reply there is no error")
	}
}
