package ovndbtest

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// databaseNames maps schemas to database names.
var databaseNames = map[string]string{"ovn-nb": "OVN_Northbound", "ovn-sb": "OVN_Southbound", "vswitch": "Open_vSwitch"}

// Cluster is a raft cluster of ovsdb-servers on loopback with one database. Its election timer is 200 ms, so that a
// lost leader has a successor after 0.4 to 0.6 s.
type Cluster struct {
	Members []*Member

	t        testing.TB
	dir      string
	database string
	schema   string
}

// Member is one server of a cluster.
type Member struct {
	cluster *Cluster
	name    string
	raft    string // its address for other members
	proc    *process
}

// StartCluster creates an empty database of the schema on the given number of servers. It returns when all have it.
func StartCluster(t testing.TB, schema string, servers int) *Cluster {
	t.Helper()
	dir, err := os.MkdirTemp("", "weft-raft-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return StartClusterIn(t, schema, servers, dir)
}

// StartClusterIn is StartCluster with the files in the given directory, whose path must be short.
func StartClusterIn(t testing.TB, schema string, servers int, dir string) *Cluster {
	t.Helper()
	c := &Cluster{t: t, dir: dir, database: databaseNames[schema], schema: schema}
	for i := range servers {
		m := &Member{cluster: c, name: fmt.Sprintf("%d", i+1), raft: "tcp:" + freeAddress(t)}
		if i == 0 {
			Command(t, "ovsdb-tool", "-vconsole:off", "--election-timer=200", "create-cluster", m.file(), SchemaFile(t, schema), m.raft)
		} else {
			Command(t, "ovsdb-tool", "-vconsole:off", "join-cluster", m.file(), c.database, m.raft, c.Members[0].raft)
		}
		c.Members = append(c.Members, m)
		m.Run()
		m.await("connected")
	}
	return c
}

// freeAddress returns an unused TCP address on loopback.
func freeAddress(t testing.TB) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

// Endpoints returns the OVSDB remotes of all members.
func (c *Cluster) Endpoints() []string {
	endpoints := make([]string, 0, len(c.Members))
	for _, m := range c.Members {
		endpoints = append(endpoints, m.Endpoint())
	}
	return endpoints
}

// Leader waits until a member leads and commits, and returns it.
func (c *Cluster) Leader() *Member {
	c.t.Helper()
	deadline := time.Now().Add(startTimeout)
	for time.Now().Before(deadline) {
		for _, m := range c.Members {
			if m.leads() {
				return m
			}
		}
		<-time.After(10 * time.Millisecond) // a change of leaders causes no event outside the servers
	}
	c.t.Fatal("no member leads")
	return nil
}

// Ctl runs ovn-nbctl, ovn-sbctl or ovs-vsctl, by the schema, on the leader.
func (c *Cluster) Ctl(args ...string) string {
	c.t.Helper()
	return ctl(c.t, c.schema, strings.Join(c.Endpoints(), ","), args...)
}

func (m *Member) file() string   { return filepath.Join(m.cluster.dir, "db"+m.name) }
func (m *Member) socket() string { return filepath.Join(m.cluster.dir, "sock"+m.name) }

func (m *Member) control() string { return filepath.Join(m.cluster.dir, "ctl"+m.name) }

// File is the member's log.
func (m *Member) File() string { return m.file() }

// PID is the member's process; it changes with Run.
func (m *Member) PID() int { return m.proc.cmd.Process.Pid }

// Endpoint returns the member's OVSDB remote.
func (m *Member) Endpoint() string { return "unix:" + m.socket() }

// Wire returns a TCP path to the member.
func (m *Member) Wire() *Wire { return startWire(m.cluster.t, "unix", m.socket()) }

// Run starts the member, after Kill.
func (m *Member) Run() {
	m.cluster.t.Helper()
	restart(m.cluster.t, &m.proc, m.cluster.dir, "ovsdb-server", "-vconsole:warn", "--remote=punix:"+m.socket(),
		"--unixctl="+m.control(), m.file())
	m.proc.ready(m.cluster.t, m.control())
}

// Kill ends the member without warning.
func (m *Member) Kill() {
	m.proc.signal(syscall.SIGKILL)
	_ = os.Remove(m.socket())
	_ = os.Remove(m.control())
}

// Stop freezes the member: it keeps its connections and responds to none.
func (m *Member) Stop() { _ = m.proc.cmd.Process.Signal(syscall.SIGSTOP) }

// Continue resumes a frozen member.
func (m *Member) Continue() { _ = m.proc.cmd.Process.Signal(syscall.SIGCONT) }

// Transfer makes the leader pass the lead to another member, as it does each time it writes a snapshot, and returns
// the new leader.
func (m *Member) Transfer() *Member {
	m.cluster.t.Helper()
	m.appctl("cluster/failure-test", "transfer-leadership")
	for {
		if leader := m.cluster.Leader(); leader != m {
			return leader
		}
	}
}

// Isolate cuts the member off from the other members, as a broken network between them does. Its clients notice
// nothing. Only the end of the member's process undoes it.
func (m *Member) Isolate() {
	m.cluster.t.Helper()
	m.appctl("cluster/failure-test", "stop-raft-rpc")
}

// Replace removes the member from the cluster for good and joins a server with an empty disk in its place. The new
// server has the same name for clients, and another identity and address among the members.
func (m *Member) Replace() {
	c := m.cluster
	c.t.Helper()
	id := strings.TrimSpace(m.appctl("cluster/sid", c.database))
	m.Kill()
	leader := c.Leader()
	leader.appctl("cluster/kick", c.database, id)
	if err := os.Remove(m.file()); err != nil {
		c.t.Fatal(err)
	}
	m.raft = "tcp:" + freeAddress(c.t)
	Command(c.t, "ovsdb-tool", "-vconsole:off", "join-cluster", m.file(), c.database, m.raft, leader.raft)
	m.Run()
	m.Await()
}

// Await returns when the member has a leader and is up to date.
func (m *Member) Await() {
	m.cluster.t.Helper()
	m.await("connected")
}

func (m *Member) await(state string) {
	m.cluster.t.Helper()
	Command(m.cluster.t, "ovsdb-client", "-vconsole:off", "wait", m.Endpoint(), m.cluster.database, state)
}

func (m *Member) leads() bool {
	select {
	case <-m.proc.done:
		return false
	default:
		return strings.Contains(m.appctl("cluster/status", m.cluster.database), "\nRole: leader\n")
	}
}

func (m *Member) appctl(args ...string) string {
	m.cluster.t.Helper()
	return Command(m.cluster.t, "ovs-appctl", append([]string{"-t", m.control()}, args...)...)
}
