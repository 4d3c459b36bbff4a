//go:build e2e

package load

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/weft-network/weft/pkg/ovndb/ovndbtest"
)

var onRaft = flag.Bool("raft", false, "also measure each controller on a raft cluster of three members on this machine")

// northbound is the database that the controller writes: one server, or a raft cluster.
type northbound interface {
	// remotes are the servers' remotes; observed is the remote that the observer uses.
	remotes() []string
	observed() string
	// file is the log of the transactions.
	file() string
	pids() map[string]int
	end()
	// renew replaces the database with an empty one.
	renew()
}

// nbServer is the name in results of the database's process, or of a cluster's first process.
const nbServer = "ovsdb-server"

func startNorthbound(t *testing.T, raft bool) northbound {
	t.Helper()
	if !raft {
		return standalone{ovndbtest.Start(t, "ovn-nb")}
	}
	m := &members{t: t, dir: shortDir(t)}
	m.Cluster = ovndbtest.StartClusterIn(t, "ovn-nb", raftMembers, m.dir)
	return m
}

const raftMembers = 3

// standalone is a server without a cluster.
type standalone struct{ *ovndbtest.Server }

func (s standalone) remotes() []string    { return []string{s.Endpoint()} }
func (s standalone) observed() string     { return s.Endpoint() }
func (s standalone) file() string         { return s.File() }
func (s standalone) pids() map[string]int { return map[string]int{nbServer: s.PID()} }

func (s standalone) end() { s.Kill() }

func (s standalone) renew() {
	s.Kill()
	s.Empty()
	s.Run()
}

// members are a raft cluster.
type members struct {
	*ovndbtest.Cluster
	t   *testing.T
	dir string
}

func (m *members) remotes() []string { return m.Endpoints() }
func (m *members) observed() string  { return m.Leader().Endpoint() }
func (m *members) file() string      { return m.Members[0].File() } // every member's log is complete

func (m *members) pids() map[string]int {
	pids := map[string]int{}
	for i, member := range m.Members {
		name := nbServer
		if i > 0 {
			name = fmt.Sprintf("%s %d", nbServer, i+1)
		}
		pids[name] = member.PID()
	}
	return pids
}

func (m *members) end() {
	for _, member := range m.Members {
		member.Kill()
	}
}

// renew creates another cluster at the same sockets.
func (m *members) renew() {
	m.t.Helper()
	m.end()
	for _, member := range m.Members {
		if err := os.Remove(member.File()); err != nil {
			m.t.Fatal(err)
		}
	}
	m.Cluster = ovndbtest.StartClusterIn(m.t, "ovn-nb", raftMembers, m.dir)
}

// remotes returns the OVSDB remotes in the controller's format.
func (w *world) remotes() string { return strings.Join(w.nb.remotes(), ",") }
