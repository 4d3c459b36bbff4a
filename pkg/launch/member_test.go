package launch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weft-network/weft/pkg/member"
	"github.com/weft-network/weft/pkg/pki"
	"github.com/weft-network/weft/pkg/unixctl"
	"github.com/weft-network/weft/test/lab/tools"
)

// host is one of several that have a member of the northbound database. Each has a folder of its own, where its servers find the sockets of the others by the
// same names: addresses of sockets are relative here.
type host struct {
	t       *testing.T
	name    string
	address string
	dir     string
	db      Database
	server  *exec.Cmd
	id      member.Identity
}

// newHosts start what takes orders on each.
func newHosts(t *testing.T, cache tools.Cache, names ...string) map[string]*host {
	t.Helper()
	authority, err := pki.NewAuthority("nb", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]*host{}
	for i, name := range names {
		address := fmt.Sprintf("127.%d.%d.%d", 64+os.Getpid()>>8&63, os.Getpid()&255, 10+i)
		pair, err := authority.Issue(pki.Subject{Name: "weft-nb", Addresses: []netip.Addr{netip.MustParseAddr(address)}}, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		dir, err := os.MkdirTemp("", "weft-member-")
		if err != nil {
			t.Fatal(err)
		}
		h := &host{t: t, name: name, address: address, dir: dir, id: member.Identity{Key: pair.Key, Cert: pair.Cert, CA: authority.Cert}}
		h.db = Database{File: member.DatabaseFile(dir, "nb"), Schema: cache.Schema("ovn-nb"),
			Member: &Member{Key: "nb", Name: "OVN_Northbound", Orders: member.OrderFile(dir)}}
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() {
			s := &member.Server{Address: address + ":" + member.Port, Run: dir, Data: dir, Identity: func() (member.Identity, error) { return h.id, nil }, Log: slog.New(slog.DiscardHandler)}
			ended <- s.Serve(ctx)
		}()
		t.Cleanup(func() {
			h.stop()
			cancel()
			if err := <-ended; err != nil {
				t.Error(err)
			}
			os.RemoveAll(dir)
		})
		all[name] = h
	}
	return all
}

// run is the container's program.
func (h *host) run() {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(h.t.Context(), 10*time.Second)
	defer cancel()
	if err := h.db.prepare(ctx); err != nil {
		h.t.Fatalf("%s: %v", h.name, err)
	}
	h.server = exec.Command("ovsdb-server", "-vconsole:off", "--remote=punix:ovnnb_db.sock", "--unixctl="+filepath.Join(h.dir, "ovnnb_db.ctl"), filepath.Base(h.db.File))
	h.server.Dir, h.server.Env = h.dir, append(os.Environ(), "OVS_RUNDIR="+h.dir) // what sockets with a relative path are in
	if err := h.server.Start(); err != nil {
		h.t.Fatal(err)
	}
}

func (h *host) stop() {
	if h.server != nil {
		_ = h.server.Process.Kill()
		_ = h.server.Wait()
		h.server = nil
	}
}

// tell gives it an order, and returns its state.
func (h *host) tell(d member.DatabaseOrder, peers ...*host) member.DatabaseState {
	h.t.Helper()
	order := member.Order{Self: h.name, Databases: map[string]member.DatabaseOrder{"nb": d}}
	for _, p := range peers {
		order.Peers = append(order.Peers, member.Peer{Node: p.name, Address: p.address})
	}
	return h.ask(order)
}

func (h *host) ask(order member.Order) member.DatabaseState {
	h.t.Helper()
	var state member.State
	var err error
	for range 100 { // it may not listen yet
		ctx, cancel := context.WithTimeout(h.t.Context(), 5*time.Second)
		state, err = member.Ask(ctx, h.address, h.id, order)
		cancel()
		if err == nil {
			return state.Databases["nb"]
		}
		time.Sleep(20 * time.Millisecond)
	}
	h.t.Fatalf("%s: %v", h.name, err)
	return member.DatabaseState{}
}

// until asks until the state is as it shall be.
func (h *host) until(what string, is func(member.DatabaseState) bool) member.DatabaseState {
	h.t.Helper()
	var state member.DatabaseState
	for range 600 {
		if state = h.ask(member.Order{}); is(state) {
			return state
		}
		time.Sleep(50 * time.Millisecond)
	}
	h.t.Fatalf("%s: not %s: %+v", h.name, what, state)
	return state
}

func connected(s member.DatabaseState) bool { return s.Connected }

func knows(n int) func(member.DatabaseState) bool {
	return func(s member.DatabaseState) bool { return s.Connected && len(s.Servers) == n }
}

// switches are the names of logical switches that clients see by a socket.
func (h *host) switches(socket string) string {
	h.t.Helper()
	out, err := exec.Command("ovsdb-client", "-vconsole:off", "transact", "unix:"+filepath.Join(h.dir, socket),
		`["OVN_Northbound",{"op":"select","table":"Logical_Switch","where":[],"columns":["name"]}]`).CombinedOutput()
	if err != nil {
		h.t.Fatalf("%s: %v: %s", h.name, err, out)
	}
	return string(out)
}

// waits tells whether the container's program waits for an order.
func (h *host) waits() {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(h.t.Context(), 200*time.Millisecond)
	defer cancel()
	if err := h.db.prepare(ctx); !errors.Is(err, context.DeadlineExceeded) {
		h.t.Errorf("%s did not wait for an order: %v", h.name, err)
	}
}

// TestMembersComeAndGo: a database with rows becomes a cluster's, others join it and no other, one is kicked, comes back with its old file, and joins again.
func TestMembersComeAndGo(t *testing.T) {
	hosts := newHosts(t, ovn(t), "a", "b", "c")
	a, b, c := hosts["a"], hosts["b"], hosts["c"]
	alone := a.db
	alone.Member, alone.Insert = nil, `["OVN_Northbound",{"op":"insert","table":"Logical_Switch","row":{"name":"kept"}}]`
	if err := alone.prepare(t.Context()); err != nil {
		t.Fatal(err)
	}

	// Without an order nothing is made, and what is there is not served.
	a.waits()
	b.waits()
	if state := a.ask(member.Order{}); state.File.Kind != member.Standalone {
		t.Errorf("its file is %+v", state.File)
	}

	a.tell(member.DatabaseOrder{Create: true}, a, b, c)
	a.run()
	cluster := a.until("connected", connected).File.Cluster
	all := []*host{a, b, c}
	for _, h := range all {
		h.tell(member.DatabaseOrder{Cluster: cluster}, all...)
	}
	for _, h := range []*host{b, c} {
		h.run()
		h.until("connected", connected)
	}
	for _, socket := range []string{"ovnnb_db.sock", "member-0-nb.sock", "member-1-nb.sock", "member-2-nb.sock"} { // its own, and those of the slots
		if rows := c.switches(socket); !strings.Contains(rows, "kept") {
			t.Errorf("c sees %s by %s", rows, socket)
		}
	}
	was := c.until("one of three", knows(3)).File.Server

	// Its node is gone.
	c.stop()
	a.until("of two that are connected", connected)
	a.tell(member.DatabaseOrder{Cluster: cluster, Kick: []string{member.Raft("", "c", "nb")}}, all...)
	a.until("one of two", knows(2))

	// It comes back with its old file, which the others do not know. That is set aside only when it is ordered.
	c.run()
	c.until("cut off", func(s member.DatabaseState) bool { return strings.HasPrefix(s.Status, "disconnected") })
	c.tell(member.DatabaseOrder{Cluster: cluster, Discard: was}, all...)
	if err := c.server.Wait(); err != nil {
		t.Errorf("its server: %v", err)
	}
	c.server = nil
	c.run()
	if now := c.until("connected", connected).File.Server; now == was {
		t.Error("it has the file of before")
	}
	c.until("one of three", knows(3))

	// Its disk is lost: it has no file and no order.
	c.stop()
	for _, file := range []string{c.db.File, member.OrderFile(c.dir)} {
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
	}
	c.waits()
	c.tell(member.DatabaseOrder{Cluster: cluster, Discard: was}, all...) // the same as before
	c.run()
	c.until("connected, beside what it was", knows(4))
	ghost := ""
	own := c.ask(member.Order{}).File.Server
	for _, s := range a.ask(member.Order{}).Servers {
		if s.Address == member.Raft("", "c", "nb") && !strings.HasPrefix(own, s.ID) {
			ghost = s.ID
		}
	}
	a.tell(member.DatabaseOrder{Cluster: cluster, Kick: []string{ghost}}, all...)
	a.until("one of three", knows(3))
}

// TestNobodyJoinsAnotherCluster: two clusters of one name, at the addresses of one.
func TestNobodyJoinsAnotherCluster(t *testing.T) {
	hosts := newHosts(t, ovn(t), "a", "b")
	a, b := hosts["a"], hosts["b"]
	a.tell(member.DatabaseOrder{Create: true}, a, b)
	a.run()
	a.until("connected", connected)
	b.tell(member.DatabaseOrder{Cluster: "11111111-2222-4333-8444-555555555555"}, a, b)
	b.run()
	for range 20 {
		if state := b.ask(member.Order{}); state.Connected {
			t.Fatalf("b is in %+v", state)
		}
		time.Sleep(100 * time.Millisecond)
	}
	if servers := a.ask(member.Order{}).Servers; len(servers) != 1 {
		t.Errorf("a has %+v", servers)
	}
}

// TestOnlyTheAuthoritysAreHeard: a chassis has a key pair of another one.
func TestOnlyTheAuthoritysAreHeard(t *testing.T) {
	a := newHosts(t, ovn(t), "a")["a"]
	a.ask(member.Order{})
	authority, err := pki.NewAuthority("sb", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	pair, err := authority.Issue(pki.Subject{Name: "weft-agent"}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if state, err := member.Ask(t.Context(), a.address, member.Identity{Key: pair.Key, Cert: pair.Cert, CA: a.id.CA}, member.Order{Self: "a"}); err == nil {
		t.Errorf("a stranger's order was taken: %+v", state)
	}
	if _, err := os.Stat(member.OrderFile(a.dir)); err == nil {
		t.Error("there is an order")
	}
	if _, err := unixctl.Call(t.Context(), filepath.Join(a.dir, "ovnnb_db.ctl"), "version"); err == nil {
		t.Error("a server runs")
	}
}
