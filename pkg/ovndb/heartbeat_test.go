package ovndb_test

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/weft-network/weft/pkg/ovndb"
	"github.com/weft-network/weft/pkg/ovndb/ovndbtest"
)

func (c *counter) heartbeats() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.beats
}

// awaitHeartbeats waits for n more heartbeats.
func (r *running) awaitHeartbeats(t *testing.T, n int) {
	t.Helper()
	want := r.counter.heartbeats() + n
	r.await(t, fmt.Sprintf("%d heartbeats", n), func() bool { return r.counter.heartbeats() >= want })
}

// Heartbeats are counted as transactions of their own kind. They change only their key, and the key need not exist.
func TestHeartbeatsChangeNothingElse(t *testing.T) {
	nb := ovndbtest.Start(t, "ovn-nb")
	e := runWith(t, ovndb.Config{Endpoints: []string{nb.Endpoint()}, Heartbeat: 20 * time.Millisecond})
	e.fill(t)
	e.awaitHeartbeats(t, 1)
	rows, writes, log := dump(nb), e.counter.count(), nb.Transactions()
	config := nb.Ctl("--columns=nb_cfg,options", "list", "NB_Global")
	e.awaitHeartbeats(t, 5)
	if got := nb.Transactions() - log; got != 0 || e.counter.count() != writes || dump(nb) != rows {
		t.Errorf("five heartbeats: %d transactions of other kinds in the log, %d writes", got, e.counter.count()-writes)
	}
	if got := nb.Ctl("--columns=nb_cfg,options", "list", "NB_Global"); got != config {
		t.Errorf("NB_Global was %s and is %s", config, got)
	}
	nb.Ctl("remove", "NB_Global", ".", "external_ids", "weft.dev/heartbeat")
	e.awaitHeartbeats(t, 2)
	if got := nb.Ctl("get", "NB_Global", ".", "external_ids:weft.dev/heartbeat"); got == "" {
		t.Error("the key is not written again")
	}
	if got := e.counter.fenced(); got != 1 {
		t.Errorf("%d connections, want 1", got)
	}
}

// nodes reads how often each node of northd's incremental engine was computed. Nodes that represent tables are left
// out.
func nodes(central *ovndbtest.Central) map[string]string {
	stats := regexp.MustCompile(`Node: (\S+)\n- recompute:\s+(\d+)\n- compute:\s+(\d+)`)
	found := map[string]string{}
	for _, m := range stats.FindAllStringSubmatch(central.Northd("inc-engine/show-stats"), -1) {
		if !strings.HasPrefix(m[1], "NB_") && !strings.HasPrefix(m[1], "SB_") && !strings.HasSuffix(m[1], "_waker") {
			found[m[1]] = m[2] + " recomputed, " + m[3] + " computed"
		}
	}
	return found
}

// A heartbeat every 5 s must cost the network nothing: ovn-northd computes nothing for it, neither in full nor
// incrementally.
func TestHeartbeatsLetNorthdRest(t *testing.T) {
	central := ovndbtest.StartCentral(t)
	e := runWith(t, ovndb.Config{Endpoints: []string{central.NB.Endpoint()}, Heartbeat: 50 * time.Millisecond})
	e.fill(t)
	central.Sync()
	central.Sync() // northd has processed its own changes of the southbound database
	before := nodes(central)
	e.awaitHeartbeats(t, 20)
	after := nodes(central)
	if len(before) < 10 || !maps.Equal(before, after) {
		t.Errorf("computed nodes before 20 heartbeats: %v\nafter: %v", before, after)
	}
	e.apply(t, portUnit("n1", "p9", "u", 30))
	central.Sync()
	if maps.Equal(after, nodes(central)) {
		t.Error("a new port was not counted: the comparison proves nothing")
	}
}

// L5: a leader that is blind and stays. Without a heartbeat for BlindAfter, Run ends, whatever state the connection
// appears to be in.
func TestBlindWriterEnds(t *testing.T) {
	for name, blind := range map[string]func(*ovndbtest.Server, *ovndbtest.Wire){
		"the server is gone":        func(nb *ovndbtest.Server, _ *ovndbtest.Wire) { nb.Kill() },
		"the path swallows answers": func(_ *ovndbtest.Server, w *ovndbtest.Wire) { w.Set(ovndbtest.Passing, ovndbtest.Lost) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			nb := ovndbtest.Start(t, "ovn-nb")
			wire := ovndbtest.StartWire(t, nb)
			cfg := quick(wire.Endpoint())
			cfg.BlindAfter = 2 * time.Second
			e := runWith(t, cfg)
			e.fill(t)
			began := time.Now()
			blind(nb, wire)
			select {
			case err := <-e.done:
				e.done <- nil
				if !errors.Is(err, ovndb.ErrBlind) {
					t.Errorf("it ended with %v, want ErrBlind", err)
				}
			case <-time.After(time.Minute):
				t.Fatal("Run does not return")
			}
			if took := time.Since(began); took < cfg.BlindAfter-2*cfg.Heartbeat {
				t.Errorf("it ended after %s, want %s since the last heartbeat", took, cfg.BlindAfter)
			}
		})
	}
}

// A short outage does not count as blindness.
func TestShortOutageIsLivedThrough(t *testing.T) {
	t.Parallel()
	nb := ovndbtest.Start(t, "ovn-nb")
	cfg := quick(nb.Endpoint())
	cfg.BlindAfter = 4 * time.Second
	e := runWith(t, cfg)
	e.fill(t)
	for range 2 {
		e.again(t, func() { nb.Kill(); nb.Run() })
	}
	e.awaitHeartbeats(t, 45) // longer than BlindAfter
	e.whole(t)
}
