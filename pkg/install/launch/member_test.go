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
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weft-network/weft/pkg/install/member"
	"github.com/weft-network/weft/pkg/install/pki"
	"github.com/weft-network/weft/pkg/ovn/unixctl"
	"github.com/weft-network/weft/pkg/ports"
	"github.com/weft-network/weft/test/lab/tools"
	"github.com/weft-network/weft/test/poll"
)

// host is a host with a member of the northbound database. Each host has its own folder, and socket addresses are
// relative to it. So all hosts use the same names for the sockets of the others.
type host struct {
	t       *testing.T
	name    string
	address string
	dir     string
	db      Database
	server  *exec.Cmd
	id      member.Identity
}

// newHosts starts a member.Server on each host.
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
			s := &member.Server{Address: address + ports.Any(ports.Members), Run: dir, Data: dir,
				Identity: func() (member.Identity, error) { return h.id, nil }, Log: slog.New(slog.DiscardHandler)}
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

// run does what the database container does: it prepares the database and starts its server.
func (h *host) run() {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(h.t.Context(), time.Minute)
	defer cancel()
	if err := h.db.prepare(ctx); err != nil {
		h.t.Fatalf("%s: %v", h.name, err)
	}
	h.server = exec.Command("ovsdb-server", "-vconsole:off", "--log-file="+h.log(), "--remote=punix:ovnnb_db.sock",
		"--unixctl="+filepath.Join(h.dir, "ovnnb_db.ctl"), filepath.Base(h.db.File))
	h.server.Dir, h.server.Env = h.dir, append(os.Environ(), "OVS_RUNDIR="+h.dir) // sockets with a relative path are created there
	if err := h.server.Start(); err != nil {
		h.t.Fatal(err)
	}
}

// log returns the path of the server's log.
func (h *host) log() string { return filepath.Join(h.dir, "server.log") }

func (h *host) stop() {
	if h.server != nil {
		_ = h.server.Process.Kill()
		_ = h.server.Wait()
		h.server = nil
	}
}

// order sends the host an order for its database, and returns the resulting state.
func (h *host) order(d member.DatabaseOrder, peers ...*host) member.DatabaseState {
	h.t.Helper()
	order := member.Order{Self: h.name, Databases: map[string]member.DatabaseOrder{"nb": d}}
	for _, p := range peers {
		order.Peers = append(order.Peers, member.Peer{Node: p.name, Address: p.address})
	}
	return h.send(order)
}

// state returns the state of the host's database.
func (h *host) state() member.DatabaseState {
	h.t.Helper()
	return h.send(member.Order{})
}

// send delivers an order, and retries while the host's server does not listen yet.
func (h *host) send(order member.Order) member.DatabaseState {
	h.t.Helper()
	var state member.State
	poll.Eventually(h.t, time.Minute, func() (err error) {
		ctx, cancel := context.WithTimeout(h.t.Context(), time.Minute)
		defer cancel()
		if state, err = member.Send(ctx, h.address, h.id, order); err != nil {
			return fmt.Errorf("%s: %w", h.name, err)
		}
		return nil
	})
	return state.Databases["nb"]
}

// until polls the state until is returns true.
func (h *host) until(what string, is func(member.DatabaseState) bool) member.DatabaseState {
	h.t.Helper()
	var state member.DatabaseState
	poll.Eventually(h.t, time.Minute, func() error {
		if state = h.state(); !is(state) {
			return fmt.Errorf("%s: not %s: %+v", h.name, what, state)
		}
		return nil
	})
	return state
}

func connected(s member.DatabaseState) bool { return s.Connected }

func connectedWith(n int) func(member.DatabaseState) bool {
	return func(s member.DatabaseState) bool { return s.Connected && len(s.Servers) == n }
}

// transact changes the database by the host's server.
func (h *host) transact(operation string) {
	h.t.Helper()
	out, err := exec.Command("ovsdb-client", "-vconsole:off", "transact", "unix:"+filepath.Join(h.dir, "ovnnb_db.sock"),
		`["OVN_Northbound",`+operation+`]`).CombinedOutput()
	if err != nil || strings.Contains(string(out), "error") {
		h.t.Fatalf("%s: %v: %s", h.name, err, out)
	}
}

// switches returns the logical switches that a client sees through a socket.
func (h *host) switches(socket string) string {
	h.t.Helper()
	out, err := exec.Command("ovsdb-client", "-vconsole:off", "transact", "unix:"+filepath.Join(h.dir, socket),
		`["OVN_Northbound",{"op":"select","table":"Logical_Switch","where":[],"columns":["name"]}]`).CombinedOutput()
	if err != nil {
		h.t.Fatalf("%s: %v: %s", h.name, err, out)
	}
	return string(out)
}

// mustWait fails the test unless the database container waits for an order.
func (h *host) mustWait() {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(h.t.Context(), 200*time.Millisecond)
	defer cancel()
	if err := h.db.prepare(ctx); !errors.Is(err, context.DeadlineExceeded) {
		h.t.Errorf("%s did not wait for an order: %v", h.name, err)
	}
}

// TestMembersComeAndGo turns a database with rows into a cluster, which two others join. Then a member is kicked,
// comes back with its old file, joins again, and finally loses its disk.
func TestMembersComeAndGo(t *testing.T) {
	hosts := newHosts(t, ovn(t), "a", "b", "c")
	a, b, c := hosts["a"], hosts["b"], hosts["c"]
	alone := a.db
	alone.Member, alone.Insert = nil, `["OVN_Northbound",{"op":"insert","table":"Logical_Switch","row":{"name":"kept"}}]`
	if err := alone.prepare(t.Context()); err != nil {
		t.Fatal(err)
	}

	// Without an order no database is created, and an existing database is not served.
	a.mustWait()
	b.mustWait()
	if state := a.state(); state.File.Kind != member.Standalone {
		t.Errorf("the file of a: %+v", state.File)
	}

	a.order(member.DatabaseOrder{Create: true}, a, b, c)
	a.run()
	cluster := a.until("connected", connected).File.Cluster
	all := []*host{a, b, c}
	for _, h := range all {
		h.order(member.DatabaseOrder{Cluster: cluster}, all...)
	}
	for _, h := range []*host{b, c} {
		h.run()
		h.until("connected", connected)
	}
	for _, socket := range []string{"ovnnb_db.sock", "member-0-nb.sock", "member-1-nb.sock", "member-2-nb.sock"} {
		if rows := c.switches(socket); !strings.Contains(rows, "kept") {
			t.Errorf("c sees %s through %s", rows, socket)
		}
	}
	was := c.until("one of three members", connectedWith(3)).File.Server

	// The node of c goes away.
	c.stop()
	a.until("connected with two members left", connected)
	a.order(member.DatabaseOrder{Cluster: cluster, Kick: []string{member.Raft("", "c", "nb")}}, all...)
	a.until("one of two members", connectedWith(2))

	// c comes back with its old file, which the others do not recognize. Only an order discards that file.
	c.run()
	c.until("disconnected", func(s member.DatabaseState) bool { return strings.HasPrefix(s.Status, "disconnected") })
	c.order(member.DatabaseOrder{Cluster: cluster, Discard: was}, all...)
	if err := c.server.Wait(); err != nil {
		t.Errorf("the server of c: %v", err)
	}
	c.server = nil
	c.run()
	if now := c.until("connected", connected).File.Server; now == was {
		t.Error("c still has its old file")
	}
	c.until("one of three members", connectedWith(3))

	// c loses its disk: both its file and its order are gone.
	c.stop()
	for _, file := range []string{c.db.File, member.OrderFile(c.dir)} {
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
	}
	c.mustWait()
	c.order(member.DatabaseOrder{Cluster: cluster, Discard: was}, all...) // the previous order
	c.run()
	c.until("connected, beside its previous self", connectedWith(4))
	ghost := ""
	own := c.state().File.Server
	for _, s := range a.state().Servers {
		if s.Address == member.Raft("", "c", "nb") && !strings.HasPrefix(own, s.ID) {
			ghost = s.ID
		}
	}
	a.order(member.DatabaseOrder{Cluster: cluster, Kick: []string{ghost}}, all...)
	a.until("one of three members", connectedWith(3))
}

// TestAClusterEnds lets two of three members leave, the leader first. The last one becomes a standalone database with all
// rows, and a cluster again.
func TestAClusterEnds(t *testing.T) {
	hosts := newHosts(t, ovn(t), "a", "b", "c")
	a, b, c := hosts["a"], hosts["b"], hosts["c"]
	all := []*host{a, b, c}
	cluster := b.found(a, c)
	b.transact(`{"op":"insert","table":"Logical_Switch","row":{"name":"kept"}}`)
	for i, h := range []*host{b, c} {
		was := h.order(member.DatabaseOrder{Leave: true}, all...).File.Server
		a.until("one of the members left", connectedWith(2-i))
		h.until("away", func(s member.DatabaseState) bool { return s.Status == "" })
		h.order(member.DatabaseOrder{Discard: was}, all...)
		if err := h.server.Wait(); err != nil {
			t.Errorf("the server of %s: %v", h.name, err)
		}
		h.server = nil
		h.mustWait()
		if state := h.state(); state.File.Kind != "" {
			t.Errorf("%s still has its file: %+v", h.name, state)
		}
		h.order(member.DatabaseOrder{}, all...)
		h.mustWait()
	}
	a.transact(`{"op":"insert","table":"Logical_Switch","row":{"name":"late"}}`)

	alone := a.db
	alone.Member = nil
	a.order(member.DatabaseOrder{Cluster: cluster}, all...)
	if err := alone.prepare(t.Context()); err == nil || !strings.Contains(err.Error(), "may have other members") {
		t.Errorf("a file of a cluster is served alone: %v", err)
	}
	a.order(member.DatabaseOrder{Alone: true}, all...)
	short, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if err := alone.prepare(short); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the file is converted while a server has it open: %v", err)
	}
	a.stop()
	a.db = alone
	a.run()
	a.serves()
	if rows := a.switches("ovnnb_db.sock"); !strings.Contains(rows, "kept") || !strings.Contains(rows, "late") {
		t.Errorf("a has %s", rows)
	}
	if state := a.state(); state.File.Kind != member.Standalone {
		t.Errorf("the file of a: %+v", state.File)
	}

	a.stop()
	a.db.Member = &Member{Key: "nb", Name: "OVN_Northbound", Orders: member.OrderFile(a.dir)}
	a.mustWait()
	a.order(member.DatabaseOrder{Create: true}, all...)
	a.run()
	again := a.until("connected", connected).File.Cluster
	for _, h := range all {
		h.order(member.DatabaseOrder{Cluster: again}, all...)
	}
	b.run()
	b.until("connected", connectedWith(2))
	if rows := b.switches("ovnnb_db.sock"); !strings.Contains(rows, "late") {
		t.Errorf("b has %s", rows)
	}
}

// TestALogWithTakenBackEntries ends a cluster whose last member once led and wrote an entry that no other member had. Raft took the entry
// back. It stays in the file, and ovsdb-tool would convert it.
func TestALogWithTakenBackEntries(t *testing.T) {
	hosts := newHosts(t, ovn(t), "a", "b", "c")
	a, b, c := hosts["a"], hosts["b"], hosts["c"]
	all := []*host{a, b, c}
	a.found(b, c)

	// Only a has the entry.
	b.stop()
	c.stop()
	write := exec.Command("ovsdb-client", "-vconsole:off", "transact", "unix:"+filepath.Join(a.dir, "ovnnb_db.sock"),
		`["OVN_Northbound",{"op":"insert","table":"Logical_Switch","row":{"name":"taken-back"}}]`)
	if err := write.Start(); err != nil {
		t.Fatal(err)
	}
	poll.Eventually(t, time.Minute, func() error { return a.wrote("taken-back") })
	a.stop()
	_ = write.Wait() // its server is gone
	b.run()
	c.run()
	leads(t, b, c).transact(`{"op":"insert","table":"Logical_Switch","row":{"name":"kept"}}`)
	a.run()
	a.until("connected", connectedWith(3))
	poll.Eventually(t, time.Minute, func() error { return a.wrote("kept") })
	if err := a.wrote("taken-back"); err != nil {
		t.Fatal(err)
	}

	for i, h := range []*host{b, c} {
		h.order(member.DatabaseOrder{Leave: true}, all...)
		a.until("one of the members left", connectedWith(2-i))
	}
	want := a.switches("ovnnb_db.sock")
	if strings.Contains(want, "taken-back") || !strings.Contains(want, "kept") {
		t.Fatalf("before it stands alone, a has %s", want)
	}
	a.order(member.DatabaseOrder{Alone: true}, all...)
	a.stop()
	a.db.Member = nil
	a.run()
	a.serves()
	if have := a.switches("ovnnb_db.sock"); sorted(have) != sorted(want) {
		t.Errorf("a has %s, had %s", have, want)
	}
}

// sorted returns the words of a text in order, because rows have none.
func sorted(text string) string {
	words := strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune("[]{},", r) })
	slices.Sort(words)
	return strings.Join(words, " ")
}

// found creates a cluster that others join, and returns its ID.
func (h *host) found(others ...*host) (cluster string) {
	h.t.Helper()
	all := append([]*host{h}, others...)
	h.order(member.DatabaseOrder{Create: true}, all...)
	h.run()
	cluster = h.until("connected", connected).File.Cluster
	for _, other := range all {
		other.order(member.DatabaseOrder{Cluster: cluster}, all...)
	}
	for _, other := range others {
		other.run()
		other.until("connected", connected)
	}
	h.until("one of all members", connectedWith(len(all)))
	return cluster
}

// serves waits until the host's server has opened its database.
func (h *host) serves() {
	h.t.Helper()
	poll.Eventually(h.t, time.Minute, func() error {
		return exec.Command("ovsdb-client", "list-dbs", "unix:"+filepath.Join(h.dir, "ovnnb_db.sock")).Run()
	})
}

// wrote returns nil if the file of the host's database has a text.
func (h *host) wrote(text string) error {
	file, err := os.ReadFile(h.db.File)
	if err == nil && !strings.Contains(string(file), text) {
		err = fmt.Errorf("the file of %s lacks %s", h.name, text)
	}
	return err
}

// leads returns the host whose server leads.
func leads(t *testing.T, hosts ...*host) (leader *host) {
	t.Helper()
	poll.Eventually(t, time.Minute, func() error {
		for _, h := range hosts {
			if s := h.state(); s.Leads && s.Connected {
				leader = h
				return nil
			}
		}
		return errors.New("no server leads")
	})
	return leader
}

// TestAMemberJoinsNoOtherCluster orders b to join a cluster with another ID at the address of a.
func TestAMemberJoinsNoOtherCluster(t *testing.T) {
	hosts := newHosts(t, ovn(t), "a", "b")
	a, b := hosts["a"], hosts["b"]
	a.order(member.DatabaseOrder{Create: true}, a, b)
	a.run()
	a.until("connected", connected)
	const other = "11111111-2222-4333-8444-555555555555"
	b.order(member.DatabaseOrder{Cluster: other}, a, b)
	b.run()
	poll.Eventually(t, time.Minute, poll.True("the server of a refuses two requests of b", func() bool {
		text, err := os.ReadFile(a.log())
		return err == nil && strings.Count(string(text), `"cluster":"`+other+`"`) >= 2
	}))
	if state := b.state(); state.Connected {
		t.Fatalf("b joined: %+v", state)
	}
	if servers := a.state().Servers; len(servers) != 1 {
		t.Errorf("a has servers %+v", servers)
	}
}

// TestOrdersOfAnotherAuthorityAreRefused sends an order with a key pair that the southbound database's authority
// signed, as for a chassis.
func TestOrdersOfAnotherAuthorityAreRefused(t *testing.T) {
	a := newHosts(t, ovn(t), "a")["a"]
	a.state()
	authority, err := pki.NewAuthority("sb", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	pair, err := authority.Issue(pki.Subject{Name: "weft-agent"}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	foreign := member.Identity{Key: pair.Key, Cert: pair.Cert, CA: a.id.CA}
	if state, err := member.Send(t.Context(), a.address, foreign, member.Order{Self: "a"}); err == nil {
		t.Errorf("the order was accepted: %+v", state)
	}
	if _, err := os.Stat(member.OrderFile(a.dir)); err == nil {
		t.Error("the order was stored")
	}
	if _, err := unixctl.Call(t.Context(), filepath.Join(a.dir, "ovnnb_db.ctl"), "version"); err == nil {
		t.Error("the order started a server")
	}
}
