package ovndb_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weft-network/weft/pkg/ovn/nbdb"
	"github.com/weft-network/weft/pkg/ovndb"
	"github.com/weft-network/weft/pkg/ovndb/ovndbtest"
	"github.com/weft-network/weft/pkg/unit"
)

// filling is a network of a switch, three ports, and an address set with the ports' addresses.
func filling() []unit.Unit {
	units := []unit.Unit{switchUnit("n1", 10), {Key: "set/a", Rows: []unit.Row{{Model: &nbdb.AddressSet{UUID: setRef().UUID, Name: "a"}}}}}
	for i := range 3 {
		u := portUnit("n1", fmt.Sprintf("p%d", i), "u", 16+i)
		u.Members = append(u.Members, unit.Membership{Parent: setRef(), Column: "addresses", Element: fmt.Sprintf("10.0.0.%d", i)})
		units = append(units, u)
	}
	return units
}

func (r *running) fill(t *testing.T) {
	t.Helper()
	for _, u := range filling() {
		r.settle(t, u)
	}
}

// settle applies a unit and tolerates lost connections meanwhile, because a second is short on a busy machine.
func (r *running) settle(t *testing.T, u unit.Unit) {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	err := r.try(u)
	for ; ovndb.IsPending(err) && strings.Contains(err.Error(), "connect") && time.Now().Before(deadline); err = r.try(u) {
		r.awaitConnected()
	}
	if err != nil {
		t.Fatal(err)
	}
}

// quick returns a configuration that abandons a silent server after a second.
func quick(endpoints ...string) ovndb.Config {
	return ovndb.Config{Endpoints: endpoints, Heartbeat: 100 * time.Millisecond, Deadline: time.Second}
}

// whole fails unless the copy equals the database and the database equals the units. It runs after each way to lose a
// connection.
func (r *running) whole(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var diverged *ovndb.DivergedError
	for round := 0; ; round++ {
		r.awaitConnected()
		err := r.Verify(ctx)
		changes, driftErr := r.Drift(ctx)
		if lost := driftErr != nil || err != nil && !errors.As(err, &diverged); lost && ctx.Err() == nil {
			continue
		}
		const rounds = 3
		if len(changes) > 0 && round < rounds { // a unit that waited for another's row was woken behind the barrier
			r.settle(t, unit.Unit{Key: "test/barrier"})
			continue
		}
		if err := errors.Join(err, driftErr); err != nil {
			t.Error(err)
		}
		for _, c := range changes {
			t.Errorf("the database differs from what the units want: %+v", c)
		}
		return
	}
}

// again calls lose, then waits for a new connection and until everything was compared on it.
func (r *running) again(t *testing.T, lose func()) {
	t.Helper()
	before := r.counter.fenced()
	lose()
	r.await(t, "another connection", func() bool { return r.counter.fenced() > before && r.Connected() })
	r.settle(t, unit.Unit{Key: "test/barrier"}) // earlier units are ahead of it in the queue
	r.whole(t)
}

func (c *counter) fenced() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.fences
}

// L1: a cache that lost tables after a reconnect. Whatever happened to the server, the copy is complete afterwards,
// and rows keep their UUIDs and tunnel keys.
func TestReconnectsLeaveTheCopyWhole(t *testing.T) {
	for name, lose := range map[string]func(*testing.T, *ovndbtest.Server){
		"killed":  func(_ *testing.T, nb *ovndbtest.Server) { nb.Kill(); nb.Run() },
		"emptied": func(_ *testing.T, nb *ovndbtest.Server) { nb.Kill(); nb.Empty(); nb.Run() },
		"a newer schema, converted while running": func(t *testing.T, nb *ovndbtest.Server) {
			nb.Convert(ovndbtest.EditSchema(t, "ovn-nb", func(schema map[string]any) {
				schema["version"] = "99.0.0"
				ovndbtest.Columns(schema, "Logical_Switch_Port")["novelty"] = map[string]any{"type": "string"}
				schema["tables"].(map[string]any)["Novelty"] = map[string]any{"isRoot": true,
					"columns": map[string]any{"name": map[string]any{"type": "string"}}}
			}))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			nb := ovndbtest.Start(t, "ovn-nb")
			e := runWith(t, quick(nb.Endpoint()))
			e.fill(t)
			before := dump(nb)
			for range 3 {
				e.again(t, func() { lose(t, nb) })
				if name == "a newer schema, converted while running" {
					nb.Ctl("set", "Logical_Switch_Port", "p1", "external_ids:foreign=1") // updates of the newer server are processed
					nb.Ctl("remove", "Logical_Switch_Port", "p1", "external_ids", "foreign")
					nb.Convert(ovndbtest.SchemaFile(t, "ovn-nb"))
					e.again(t, func() { nb.Kill(); nb.Run() })
				}
				if after := dump(nb); after != before {
					t.Errorf("rows differ; before:\n%s\nafter:\n%s", before, after)
				}
			}
		})
	}
}

// A database restored from an old copy of the file has rows that were deleted, lacks new rows and has old values.
func TestDatabaseRestoredFromAnOldCopy(t *testing.T) {
	t.Parallel()
	nb := ovndbtest.Start(t, "ovn-nb")
	e := runWith(t, quick(nb.Endpoint()))
	e.fill(t)
	old := nb.Copy()
	e.settle(t, empty(portUnit("n1", "p0", "u", 16)))
	e.settle(t, portUnit("n1", "p1", "recreated", 17))
	e.settle(t, portUnit("n1", "p9", "u", 25))
	before := dump(nb)
	e.again(t, func() { nb.Kill(); nb.Replace(old); nb.Run() })
	// The engine has no unit for row p0 any more. The sweep deletes it, and declares that all units are applied. That
	// also removes the old addresses of both.
	e.settle(t, empty(portUnit("n1", "p0", "u", 16)))
	e.repairs(t, e.Complete, func() bool { return dump(nb) == before })
	e.whole(t)
}

// L6, L4: half-open connections. A path that loses bytes in either direction, or accepts none, is detected within a
// heartbeat and a deadline, and the engine takes another path.
func TestHalfOpenConnectionIsLeft(t *testing.T) {
	for name, spoil := range map[string]func(*ovndbtest.Wire){
		"requests vanish":       func(w *ovndbtest.Wire) { w.Set(ovndbtest.Lost, ovndbtest.Passing) },
		"answers vanish":        func(w *ovndbtest.Wire) { w.Set(ovndbtest.Passing, ovndbtest.Lost) },
		"everything vanishes":   func(w *ovndbtest.Wire) { w.Set(ovndbtest.Lost, ovndbtest.Lost) },
		"requests are not read": func(w *ovndbtest.Wire) { w.Set(ovndbtest.Stalled, ovndbtest.Passing) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			nb := ovndbtest.Start(t, "ovn-nb")
			one, other := ovndbtest.StartWire(t, nb), ovndbtest.StartWire(t, nb)
			e := runWith(t, quick(one.Endpoint(), other.Endpoint()))
			e.fill(t)
			began := time.Now()
			e.again(t, func() { spoil(one) })
			if took := time.Since(began); took > 8*time.Second {
				t.Errorf("the other path was taken after %s, with a heartbeat of 100 ms and a deadline of 1 s", took)
			}
			e.settle(t, portUnit("n1", "later", "u", 40))
			e.again(t, func() { one.Set(ovndbtest.Passing, ovndbtest.Passing); spoil(other) })
		})
	}
}

// L6: a write that is larger than all buffers on its path does not block if the peer does not read, and neither does
// the end of the engine.
func TestLargeWriteDoesNotHang(t *testing.T) {
	t.Parallel()
	nb := ovndbtest.Start(t, "ovn-nb")
	wire := ovndbtest.StartWire(t, nb)
	e := runWith(t, quick(wire.Endpoint()))
	e.fill(t)
	wire.Set(ovndbtest.Stalled, ovndbtest.Passing)
	large := switchUnit("large", 11)
	large.Rows[0].Model.(*nbdb.LogicalSwitch).OtherConfig["text"] = strings.Repeat("x", 32<<20)
	began := time.Now()
	if err := e.try(large); !ovndb.IsPending(err) {
		t.Errorf("a write that the peer does not read: %v, want it pending", err)
	}
	if took := time.Since(began); took > 8*time.Second {
		t.Errorf("the write was given up after %s, with a deadline of 1 s", took)
	}
	stopped := time.Now()
	e.stop()
	<-e.done
	e.done <- nil
	if took := time.Since(stopped); took > 8*time.Second {
		t.Errorf("the engine ended after %s", took)
	}
}

// L7: the client continued with a wrong copy. L8: the server dropped a monitor. Any error of the copy ends the
// session, and the next session has a complete copy.
func TestAnyCacheErrorBringsACompleteCopy(t *testing.T) {
	id := unit.UUID(nbdb.LogicalSwitchPortTable, "p1 u")
	for name, update := range map[string]string{
		"a change of a row that is not there": `{"Logical_Switch_Port":{"00000000-0000-4000-8000-000000000001":{"modify":{"type":"x"}}}}`,
		"a value of another type":             fmt.Sprintf(`{"Logical_Switch_Port":{%q:{"modify":{"options":7}}}}`, id),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			nb := ovndbtest.Start(t, "ovn-nb")
			wire := ovndbtest.StartWire(t, nb)
			cfg := quick(wire.Endpoint())
			cfg.Heartbeat = time.Hour // the error alone must end the session
			e := runWith(t, cfg)
			e.fill(t)
			e.again(t, func() { wire.Inject(t, update) })
		})
	}
}

// L8: a server drops a monitor silently. It responds, commits and is connected to its cluster, but the copy becomes
// stale. The heartbeat's write does not return, and the engine takes another path.
func TestServerThatForgetsTheMonitorIsLeft(t *testing.T) {
	t.Parallel()
	nb := ovndbtest.Start(t, "ovn-nb")
	forgetful, other := ovndbtest.StartWire(t, nb), ovndbtest.StartWire(t, nb)
	forgetful.Mute(true)
	e := begin(t, quick(forgetful.Endpoint(), other.Endpoint()))
	e.await(t, "the other path", func() bool { return e.counter.fenced() == 2 && e.Connected() })
	e.fill(t)
	nb.Ctl("ls-add", "theirs", "--", "lsp-add", "theirs", "foreign")
	e.await(t, "an update", func() bool { _, ok := ovndb.Find(e.Conn, &nbdb.LogicalSwitchPort{Name: "foreign"}); return ok })
	e.whole(t)
}

// Verify finds a difference that causes no error: an update that the server never sent.
func TestVerifyFindsADifference(t *testing.T) {
	nb := ovndbtest.Start(t, "ovn-nb")
	wire := ovndbtest.StartWire(t, nb)
	e := runWith(t, ovndb.Config{Endpoints: []string{wire.Endpoint()}, Heartbeat: time.Hour})
	e.fill(t)
	e.whole(t)
	wire.Inject(t, `{"Address_Set":{"00000000-0000-4000-8000-000000000001":{"insert":{"name":"ghost"}}}}`)
	e.await(t, "the ghost", func() bool { _, ok := ovndb.Find(e.Conn, &nbdb.AddressSet{Name: "ghost"}); return ok })
	var diverged *ovndb.DivergedError
	if err := e.Verify(t.Context()); !errors.As(err, &diverged) || !strings.Contains(err.Error(), "00000000-0000-4000-8000-000000000001") {
		t.Errorf("Verify says %v", err)
	}
}

// L3: a first copy that never arrives. The load has a deadline as well, and the engine takes the next path.
func TestServerThatFallsSilentWhileLoading(t *testing.T) {
	t.Parallel()
	nb := ovndbtest.Start(t, "ovn-nb")
	silent, other := ovndbtest.StartWire(t, nb), ovndbtest.StartWire(t, nb)
	held, release := silent.Hold(`"monitor_cond"`)
	defer release()
	e := runWith(t, quick(silent.Endpoint(), other.Endpoint()))
	<-held
	e.fill(t)
	e.whole(t)
}

// setting returns an environment variable, or the default.
func setting(name, usual string) string { return cmp.Or(os.Getenv(name), usual) }

// slowRows returns the number of rows of the copy over a slow path. `WEFT_SLOW_ROWS=100000 go test -run SlowCopy`
// uses the size at which other clients failed.
func slowRows(t *testing.T) int {
	t.Helper()
	rows, err := strconv.Atoi(setting("WEFT_SLOW_ROWS", "3000"))
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

// L9: endless reconnects because the copy takes longer than its deadline. Over a path on which the copy takes several
// times the deadline, one attempt is enough.
func TestSlowCopyIsWaitedFor(t *testing.T) {
	t.Parallel()
	nb := ovndbtest.Start(t, "ovn-nb")
	rows := slowRows(t)
	for first := 0; first < rows; first += 1000 {
		var args []string
		for i := first; i < min(rows, first+1000); i++ {
			args = append(args, "--", "create", "Address_Set", fmt.Sprintf("name=set%d", i), "external_ids:text="+strings.Repeat("x", 200))
		}
		nb.Ctl(args...)
	}
	wire := ovndbtest.StartWire(t, nb)
	scale := time.Duration(max(1, rows/20_000)) // the server takes longer for the first byte of a large database
	cfg := quick(wire.Endpoint())
	cfg.Heartbeat, cfg.Deadline, cfg.BlindAfter = time.Second, scale*time.Second, scale*5*time.Second
	wire.Limit(int(float64(400*rows) / (cfg.BlindAfter + cfg.Deadline).Seconds())) // a row has 400 bytes
	began := time.Now()
	e := begin(t, cfg)
	ctx, cancel := context.WithTimeout(t.Context(), scale*time.Minute)
	defer cancel()
	if err := e.Wait(ctx, func() (bool, error) { return e.Connected(), nil }); err != nil {
		t.Fatal(err)
	}
	took := time.Since(began)
	t.Logf("%d rows, %d bytes: %s", rows, wire.Passed(), took)
	if took < cfg.BlindAfter {
		t.Fatalf("the copy took %s, which proves nothing", took)
	}
	if got := e.counter.fenced(); got != 1 {
		t.Errorf("%d copies were begun, want 1", got)
	}
	wire.Limit(0)
	e.fill(t)
	e.whole(t)
}

// L10: a client that does not start on an older server. The error names table, column and version, and the engine
// continues once the server is upgraded.
func TestServerWithAnOlderSchema(t *testing.T) {
	t.Parallel()
	nb := ovndbtest.Start(t, "ovn-nb")
	older := ovndbtest.EditSchema(t, "ovn-nb", func(schema map[string]any) {
		schema["version"] = "5.0.0"
		delete(ovndbtest.Columns(schema, "Logical_Switch_Port"), "options")
		delete(schema["tables"].(map[string]any), "Static_MAC_Binding")
	})
	nb.Convert(older)
	refused := make(chan struct{}, 100)
	cfg := quick(nb.Endpoint())
	cfg.BlindAfter = 6 * time.Second // more than the pauses between attempts, which grow to 5 s
	cfg.OnConnect = func(up bool) {
		if !up {
			refused <- struct{}{}
		}
	}
	began := time.Now()
	e := begin(t, cfg)
	<-refused
	var tooOld *ovndb.SchemaError
	if err := e.Failure(); !errors.As(err, &tooOld) {
		t.Fatalf("the failure is %v", err)
	}
	for _, word := range []string{"OVN_Northbound", "5.0.0", "Logical_Switch_Port.options", "Static_MAC_Binding"} {
		if !strings.Contains(tooOld.Error(), word) {
			t.Errorf("%q does not say %s", tooOld, word)
		}
	}
	// The engine sees the server, and no other process would fare better, so it does not end.
	e.await(t, "a later attempt", func() bool { return e.Progress().Sub(began) > cfg.BlindAfter })
	nb.Convert(ovndbtest.SchemaFile(t, "ovn-nb"))
	e.await(t, "the connection", e.Connected)
	if err := e.Failure(); err != nil {
		t.Errorf("connected, and the failure is %v", err)
	}
	e.fill(t)
	e.whole(t)
}
