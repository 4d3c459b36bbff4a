package ovndb_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr/testr"

	"github.com/weft-network/weft/pkg/ovn/nbdb"
	"github.com/weft-network/weft/pkg/ovndb"
	"github.com/weft-network/weft/pkg/ovndb/northbound"
	"github.com/weft-network/weft/pkg/ovndb/ovndbtest"
	"github.com/weft-network/weft/pkg/unit"
)

// counter counts committed write transactions.
type counter struct {
	mu      sync.Mutex
	writes  int
	fences  int
	beats   int
	drifts  []string
	wake    func() // wakes the waiters that check the counts
	onReply func() // called once, when the reply to the next write has arrived and no caller has received it yet
}

func (c *counter) Transaction(_, kind string, _ int, err error) {
	defer c.wake()
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case kind == "fence":
		c.fences++
	case kind == "heartbeat" && err == nil:
		c.beats++
	case kind == "write" && err == nil:
		c.writes++
		if call := c.onReply; call != nil {
			c.onReply = nil
			call()
		}
	}
}

func (c *counter) Connected(string, bool) {}

func (c *counter) Drift(_, table, state string) {
	defer c.wake()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.drifts = append(c.drifts, table+" "+state)
}

// beforeSettling calls a function after the reply to the next write and before the engine settles the units.
func (c *counter) beforeSettling(call func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.onReply = call
}

// driftLog returns the differences that the engine reported, in order.
func (c *counter) driftLog() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.drifts)
}

func (c *counter) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.writes
}

type running struct {
	*ovndb.Engine
	counter *counter
	stop    context.CancelFunc
	done    chan error
}

// run starts an engine and waits until it is connected.
func run(t *testing.T, server *ovndbtest.Server) *running {
	t.Helper()
	return runWith(t, ovndb.Config{Endpoints: []string{server.Endpoint()}})
}

func runWith(t *testing.T, cfg ovndb.Config) *running {
	t.Helper()
	r := begin(t, cfg)
	r.await(t, "the connection", r.Connected)
	return r
}

// begin starts an engine.
func begin(t *testing.T, cfg ovndb.Config) *running {
	t.Helper()
	r := &running{counter: &counter{}, done: make(chan error, 1)}
	cfg.Schema, cfg.Observer, cfg.Log = northbound.Schema(), r.counter, testr.New(t)
	cfg.OnDrift = func() { r.Wake() }
	r.Engine = ovndb.NewEngine(cfg, nil)
	r.counter.wake = r.Wake
	ctx, cancel := context.WithCancel(context.Background())
	r.stop = cancel
	go func() { r.done <- r.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		<-r.done
	})
	return r
}

// await waits for a condition on the database.
func (r *running) await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	ovndbtest.Await(t, r, what, ok)
}

// repairs spoils the database and waits until the engine has written and the database is good again. A good database
// alone proves nothing, because the cache may not have received the damage yet.
func (r *running) repairs(t *testing.T, spoil func(), good func() bool) {
	t.Helper()
	before := r.counter.count()
	spoil()
	r.await(t, "the repair", func() bool { return r.counter.count() > before && good() })
}

func (r *running) apply(t *testing.T, u unit.Unit) {
	t.Helper()
	if err := r.try(u); err != nil {
		t.Fatal(err)
	}
}

func (r *running) try(u unit.Unit) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return r.Apply(ctx, u)
}

func switchRef(name string) unit.Ref {
	return unit.Ref{Table: nbdb.LogicalSwitchTable, UUID: unit.UUID(nbdb.LogicalSwitchTable, name)}
}

func switchUnit(name string, key int) unit.Unit {
	return unit.Unit{Key: unit.NewKey("node", name), Rows: []unit.Row{{Model: &nbdb.LogicalSwitch{
		UUID: switchRef(name).UUID, Name: name, OtherConfig: map[string]string{"requested-tnl-key": fmt.Sprint(key)},
	}}}}
}

func portUnit(ls, name, uid string, key int) unit.Unit {
	id := unit.UUID(nbdb.LogicalSwitchPortTable, name+" "+uid)
	return unit.Unit{
		Key: unit.NewKey("pod", name),
		Rows: []unit.Row{{Model: &nbdb.LogicalSwitchPort{UUID: id, Name: name, Addresses: []string{"b", "a"},
			Options: map[string]string{"iface-id-ver": uid, "requested-tnl-key": fmt.Sprint(key)}}}},
		Members: []unit.Membership{{Parent: switchRef(ls), Column: "ports", Element: id}},
	}
}

func empty(u unit.Unit) unit.Unit { return unit.Unit{Key: u.Key} }

func ports(nb *ovndbtest.Server, ls string) string {
	lines := strings.Fields(nb.Ctl("--bare", "--columns=name", "find", "Logical_Switch_Port"))
	listed := nb.Ctl("lsp-list", ls)
	var in []string
	for _, name := range lines {
		if strings.Contains(listed, "("+name+")") {
			in = append(in, name)
		}
	}
	return strings.Join(in, " ")
}

func TestApplyTwiceWritesOnce(t *testing.T) {
	nb := ovndbtest.Start(t, "ovn-nb")
	e := run(t, nb)
	e.apply(t, switchUnit("n1", 10))
	e.apply(t, portUnit("n1", "p1", "u1", 16))
	if got := ports(nb, "n1"); got != "p1" {
		t.Fatalf("ports of n1 are %q", got)
	}
	before := e.counter.count()
	e.apply(t, switchUnit("n1", 10))
	reordered := portUnit("n1", "p1", "u1", 16)
	reordered.Rows[0].Model.(*nbdb.LogicalSwitchPort).Addresses = []string{"a", "b"}
	e.apply(t, reordered)
	if got := e.counter.count(); got != before {
		t.Errorf("applying the same again made %d transactions", got-before)
	}
}

func TestUnitWaitsForItsParent(t *testing.T) {
	nb := ovndbtest.Start(t, "ovn-nb")
	e := run(t, nb)
	if err := e.try(portUnit("n1", "p1", "u1", 16)); !ovndb.IsPending(err) {
		t.Fatalf("a port without its switch: %v, want it pending", err)
	}
	e.apply(t, switchUnit("n1", 10))
	e.await(t, "port p1", func() bool {
		_, ok := ovndb.Find(e.Conn, &nbdb.LogicalSwitchPort{Name: "p1"})
		return ok
	})
}

func TestRecreatedPodReplacesItsPortInOneTransaction(t *testing.T) {
	nb := ovndbtest.Start(t, "ovn-nb")
	e := run(t, nb)
	e.apply(t, switchUnit("n1", 10))
	e.apply(t, switchUnit("n2", 11))
	e.apply(t, portUnit("n1", "web-0", "first", 16))
	before := e.counter.count()
	e.apply(t, portUnit("n2", "web-0", "second", 16))
	if got := e.counter.count() - before; got != 1 {
		t.Errorf("%d transactions, want 1", got)
	}
	if n1, n2 := ports(nb, "n1"), ports(nb, "n2"); n1 != "" || n2 != "web-0" {
		t.Errorf("ports of n1 %q, of n2 %q; want none and web-0", n1, n2)
	}
}

func TestDeletedUnitLeavesNothing(t *testing.T) {
	nb := ovndbtest.Start(t, "ovn-nb")
	e := run(t, nb)
	e.apply(t, switchUnit("n1", 10))
	e.apply(t, portUnit("n1", "p1", "u1", 16))
	e.apply(t, empty(portUnit("n1", "p1", "u1", 16)))
	if got := ports(nb, "n1"); got != "" {
		t.Errorf("ports left: %q", got)
	}
	e.apply(t, empty(switchUnit("n1", 10)))
	if owners, _ := e.Owners(); len(owners) != 0 {
		t.Errorf("rows left of %v", owners)
	}
}

func TestPortComesBackWithItsSwitch(t *testing.T) {
	nb := ovndbtest.Start(t, "ovn-nb")
	e := run(t, nb)
	e.apply(t, switchUnit("n1", 10))
	e.apply(t, portUnit("n1", "p1", "u1", 16))
	e.repairs(t, func() { nb.Ctl("ls-del", "n1") }, func() bool { return ports(nb, "n1") == "p1" })
}

func TestForeignChangesArePutRight(t *testing.T) {
	nb := ovndbtest.Start(t, "ovn-nb")
	e := run(t, nb)
	e.apply(t, switchUnit("n1", 10))
	e.apply(t, portUnit("n1", "p1", "u1", 16))
	id := unit.UUID(nbdb.LogicalSwitchPortTable, "p1 u1")
	e.repairs(t, func() { nb.Ctl("lsp-set-addresses", "p1", "router") }, func() bool {
		p, ok := ovndb.Get[nbdb.LogicalSwitchPort](e.Conn, id)
		return ok && len(p.Addresses) == 2
	})
	e.repairs(t, func() { nb.Ctl("lsp-del", "p1") }, func() bool { return ports(nb, "n1") == "p1" })
}

func TestForeignRowsStay(t *testing.T) {
	nb := ovndbtest.Start(t, "ovn-nb")
	e := run(t, nb)
	e.apply(t, switchUnit("n1", 10))
	nb.Ctl("lsp-add", "n1", "foreign")
	e.apply(t, portUnit("n1", "p1", "u1", 16))
	e.apply(t, empty(portUnit("n1", "p1", "u1", 16)))
	if got := ports(nb, "n1"); got != "foreign" {
		t.Errorf("ports of n1 are %q, want foreign", got)
	}
}

func TestRefusedUnitDelaysNobody(t *testing.T) {
	nb := ovndbtest.Start(t, "ovn-nb")
	nb.Ctl("ls-add", "other", "--", "lsp-add", "other", "p7")
	e := run(t, nb)
	e.apply(t, switchUnit("n1", 10))
	errs := make([]error, 40)
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() { errs[i] = e.try(portUnit("n1", fmt.Sprintf("p%d", i), "u", 16+i)) })
	}
	wg.Wait()
	for i, err := range errs {
		var rejected *ovndb.RejectedError
		if i == 7 {
			if !errors.As(err, &rejected) || !strings.Contains(err.Error(), "constraint violation") ||
				!strings.Contains(err.Error(), `p7`) {
				t.Errorf("p7: %v; want the database's words", err)
			}
		} else if err != nil {
			t.Errorf("p%d: %v", i, err)
		}
	}
	nb.Ctl("ls-del", "other")
	if err := e.try(portUnit("n1", "p7", "u", 23)); err != nil {
		t.Errorf("p7 once the name is free: %v", err)
	}
}

func TestConcurrentUnitsShareTransactions(t *testing.T) {
	nb := ovndbtest.Start(t, "ovn-nb")
	e := run(t, nb)
	e.apply(t, switchUnit("n1", 10))
	before := e.counter.count()
	var wg sync.WaitGroup
	for i := range 400 {
		wg.Go(func() {
			if err := e.try(portUnit("n1", fmt.Sprintf("p%d", i), "u", 16+i)); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if got := e.counter.count() - before; got > 100 {
		t.Errorf("400 units took %d transactions", got)
	}
	if got := len(strings.Fields(ports(nb, "n1"))); got != 400 {
		t.Errorf("%d ports, want 400", got)
	}
}

func TestRestartWritesNothingButTheEpoch(t *testing.T) {
	nb := ovndbtest.Start(t, "ovn-nb")
	units := []unit.Unit{switchUnit("n1", 10), portUnit("n1", "p1", "u1", 16), portUnit("n1", "p2", "u2", 17)}
	first := run(t, nb)
	for _, u := range units {
		first.apply(t, u)
	}
	first.stop()
	before := nb.Transactions()
	second := run(t, nb)
	for _, u := range units {
		second.apply(t, u)
	}
	if got := second.counter.count(); got != 0 {
		t.Errorf("%d write transactions after a restart", got)
	}
	if got := nb.Transactions() - before; got != 1 {
		t.Errorf("the server's log grew by %d transactions, want 1 for the epoch", got)
	}
}

func TestDeletedWhileStopped(t *testing.T) {
	nb := ovndbtest.Start(t, "ovn-nb")
	first := run(t, nb)
	first.apply(t, switchUnit("n1", 10))
	first.apply(t, portUnit("n1", "p1", "u1", 16))
	first.stop()
	second := run(t, nb)
	second.apply(t, switchUnit("n1", 10))
	if second.Wanted("pod/p1") {
		t.Fatal("p1 is wanted before it was applied")
	}
	if got, known := second.RowsOf("pod/p1"); len(got) != 1 || !known {
		t.Errorf("rows of p1 in the database, before it was applied: %+v, known: %t", got, known)
	}
	second.apply(t, empty(portUnit("n1", "p1", "u1", 16)))
	if got, known := second.RowsOf("pod/p1"); len(got) != 0 || !known {
		t.Errorf("rows of p1, which wants none: %+v, known: %t", got, known)
	}
	if got := ports(nb, "n1"); got != "" {
		t.Errorf("ports of n1 are %q", got)
	}
}

func TestServerKilledAndEmptied(t *testing.T) {
	for _, emptied := range []bool{false, true} {
		t.Run(fmt.Sprintf("emptied=%v", emptied), func(t *testing.T) {
			nb := ovndbtest.Start(t, "ovn-nb")
			e := run(t, nb)
			e.apply(t, switchUnit("n1", 10))
			e.apply(t, portUnit("n1", "p1", "u1", 16))
			nb.Kill()
			e.await(t, "the loss", func() bool { return !e.Connected() })
			if err := e.try(portUnit("n1", "p2", "u2", 17)); !ovndb.IsPending(err) {
				t.Errorf("without a server: %v, want it pending", err)
			}
			if emptied {
				nb.Empty()
			}
			nb.Run()
			e.await(t, "p2", func() bool {
				_, ok := ovndb.Find(e.Conn, &nbdb.LogicalSwitchPort{Name: "p2"})
				return ok
			})
			e.apply(t, portUnit("n1", "p3", "u3", 18))
			if got := len(strings.Fields(ports(nb, "n1"))); got != 3 {
				t.Errorf("%d ports, want 3", got)
			}
		})
	}
}

func TestFormerWriterIsFenced(t *testing.T) {
	nb := ovndbtest.Start(t, "ovn-nb")
	first := run(t, nb)
	first.apply(t, switchUnit("n1", 10))
	second := run(t, nb)
	second.apply(t, switchUnit("n2", 11))
	if err := first.try(switchUnit("n3", 12)); !ovndb.IsPending(err) {
		t.Errorf("the former writer: %v", err)
	}
	if err := <-first.done; !errors.Is(err, ovndb.ErrFenced) {
		t.Errorf("the former writer ended with %v, want ErrFenced", err)
	}
	first.done <- nil
	if got := nb.Ctl("ls-list"); strings.Contains(got, "n3") {
		t.Errorf("the former writer wrote: %s", got)
	}
	second.apply(t, switchUnit("n4", 13))
}

func TestTunnelKeysAreCheckedBeforeTheWrite(t *testing.T) {
	nb := ovndbtest.Start(t, "ovn-nb")
	e := run(t, nb)
	e.apply(t, switchUnit("n1", 10))
	e.apply(t, portUnit("n1", "p1", "u1", 16))
	for name, c := range map[string]struct {
		unit unit.Unit
		want string
	}{
		"port key too large":     {portUnit("n1", "p2", "u2", 32768), "32768"},
		"port key zero":          {portUnit("n1", "p2", "u2", 0), "1..32767"},
		"port key in use":        {portUnit("n1", "p2", "u2", 16), "pod/p1"},
		"datapath key too large": {switchUnit("n2", 1<<24), "16777216"},
		"datapath key in use":    {switchUnit("n2", 10), "node/n1"},
	} {
		t.Run(name, func(t *testing.T) {
			err := e.try(c.unit)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v does not name %q", err, c.want)
			}
		})
	}
	e.apply(t, switchUnit("n2", 11))
	e.apply(t, portUnit("n2", "p2", "u2", 16)) // another switch has another key space
}

func TestMapMembershipsReplaceValues(t *testing.T) {
	nb := ovndbtest.Start(t, "ovn-nb")
	e := run(t, nb)
	option := func(value string) unit.Unit {
		return unit.Unit{Key: "network/default", Members: []unit.Membership{{
			Parent: unit.Ref{Table: nbdb.NBGlobalTable}, Column: "options", Element: "mac_prefix", Value: value}}}
	}
	nb.Ctl("set", "NB_Global", ".", "options:foreign=1")
	for _, value := range []string{"0a:58:00", "0a:58:01"} {
		e.apply(t, option(value))
		if got := nb.Ctl("get", "NB_Global", ".", "options"); !strings.Contains(got, value) || !strings.Contains(got, "foreign") {
			t.Errorf("options are %s, want mac_prefix %s and foreign", got, value)
		}
	}
	e.apply(t, unit.Unit{Key: "network/default"})
	if got := nb.Ctl("get", "NB_Global", ".", "options"); strings.Contains(got, "mac_prefix") || !strings.Contains(got, "foreign") {
		t.Errorf("options are %s, want only foreign", got)
	}
}

func TestTwoUnitsCannotOwnOneRow(t *testing.T) {
	nb := ovndbtest.Start(t, "ovn-nb")
	e := run(t, nb)
	e.apply(t, switchUnit("n1", 10))
	thief := switchUnit("n1", 10)
	thief.Key = "node/thief"
	if err := e.try(thief); err == nil || !strings.Contains(err.Error(), "node/n1") {
		t.Errorf("error %v does not name the owner", err)
	}
}

// A set that is not monitored causes no event. The audit finds elements that were removed from it.
func TestAuditPutsUnmonitoredElementsBack(t *testing.T) {
	nb := ovndbtest.Start(t, "ovn-nb")
	e := runWith(t, ovndb.Config{Endpoints: []string{nb.Endpoint()}, Audit: 50 * time.Millisecond})
	u := unit.Unit{Key: "set/a", Rows: []unit.Row{{Model: &nbdb.AddressSet{UUID: setRef().UUID, Name: "a"}}}}
	for _, address := range []string{"10.0.0.1", "10.0.0.2"} {
		u.Members = append(u.Members, unit.Membership{Parent: setRef(), Column: "addresses", Element: address})
	}
	e.apply(t, u)
	before := e.counter.count()
	nb.Ctl("set", "Address_Set", "a", "addresses=10.0.0.2,192.0.2.1")
	e.await(t, "the audit's transaction", func() bool { return e.counter.count() > before })
	if got := nb.Ctl("get", "Address_Set", "a", "addresses"); !strings.Contains(got, "10.0.0.1") {
		t.Errorf("addresses are %s", got)
	}
	if got := e.counter.count() - before; got != 1 {
		t.Errorf("%d transactions, want 1", got)
	}
}

// A server that keeps its connections and responds to nothing is abandoned after a deadline. Units applied meanwhile
// are written when it responds again.
func TestFrozenServerIsGivenUp(t *testing.T) {
	t.Parallel()
	nb := ovndbtest.Start(t, "ovn-nb")
	e := run(t, nb)
	e.apply(t, switchUnit("n1", 10))
	nb.Stop()
	err := e.try(portUnit("n1", "p1", "u1", 16))
	nb.Continue()
	if !ovndb.IsPending(err) {
		t.Errorf("from a frozen server: %v, want it pending", err)
	}
	e.await(t, "the port", func() bool {
		_, ok := ovndb.Find(e.Conn, &nbdb.LogicalSwitchPort{Name: "p1"})
		return ok
	})
}

// A refused database is tried again at growing intervals.
func TestRefusedDatabaseIsNotWrittenAndNotHammered(t *testing.T) {
	nb := ovndbtest.Start(t, "ovn-nb")
	before := nb.Transactions()
	attempts := 0
	e := ovndb.NewEngine(ovndb.Config{Schema: northbound.Schema(), Endpoints: []string{nb.Endpoint()}, Log: testr.New(t),
		Admit: func(context.Context, *ovndb.Conn) error {
			attempts++
			return errors.New("the database of another cluster")
		}}, nil)
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if err := e.Run(ctx); err != nil {
		t.Fatal(err)
	}
	if attempts == 0 || attempts > 6 {
		t.Errorf("%d attempts within a second, want 1 to 6", attempts)
	}
	if got := nb.Transactions() - before; got != 0 {
		t.Errorf("%d transactions in a refused database", got)
	}
}
