package ovndbtest

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// Central is a northbound and a southbound database with ovn-northd between them.
type Central struct {
	NB, SB *Server
	northd *process
}

// StartCentral starts all three.
func StartCentral(t testing.TB) *Central {
	t.Helper()
	c := StartDatabases(t)
	c.RunNorthd()
	return c
}

// StartDatabases starts both databases and leaves ovn-northd to RunNorthd.
func StartDatabases(t testing.TB) *Central {
	t.Helper()
	return &Central{NB: Start(t, "ovn-nb"), SB: Start(t, "ovn-sb")}
}

// RunNorthd starts ovn-northd, after StartDatabases.
func (c *Central) RunNorthd() {
	t := c.NB.t
	t.Helper()
	restart(t, &c.northd, c.NB.dir, "ovn-northd", "-vconsole:warn", "--ovnnb-db="+c.NB.Endpoint(),
		"--ovnsb-db="+c.SB.Endpoint(), "--unixctl="+c.NorthdControl())
	c.northd.ready(t, c.NorthdControl())
}

// NorthdControl is the path of northd's control socket.
func (c *Central) NorthdControl() string { return filepath.Join(c.NB.dir, "northd.ctl") }

// NorthdPID is northd's process.
func (c *Central) NorthdPID() int { return c.northd.cmd.Process.Pid }

// Sync returns when northd has copied the northbound database to the southbound one.
func (c *Central) Sync() {
	c.NB.t.Helper()
	c.NB.Ctl("--wait=sb", "--timeout=20", "sync")
}

// Trace runs ovn-trace --minimal on a datapath and returns its output. states is the packet's state in connection
// tracking at each step, such as "est,rpl". The default is a new connection.
func (c *Central) Trace(datapath, microflow string, states ...string) string {
	c.SB.t.Helper()
	args := []string{"--db=" + c.SB.Endpoint()}
	for i := range max(len(states), 3) {
		state := "new"
		if i < len(states) {
			state = states[i]
		}
		args = append(args, "--ct="+state)
	}
	return Command(c.SB.t, "ovn-trace", append(args, "--minimal", datapath, microflow)...)
}

// Northd runs one of northd's control commands (ovn-northd(8)) and returns its output.
func (c *Central) Northd(args ...string) string {
	c.NB.t.Helper()
	return Command(c.NB.t, "ovn-appctl", append([]string{"-t", c.NorthdControl()}, args...)...)
}

// FollowCluster starts a southbound database and an ovn-northd that copies the cluster's northbound database to it.
func FollowCluster(t testing.TB, nb *Cluster) *Server {
	t.Helper()
	return Follow(t, nb.Endpoints()).SB
}

// Follower is a southbound database with an ovn-northd that follows a northbound database of another server.
type Follower struct {
	SB      *Server
	remotes string
	northd  *process
}

// Follow starts both.
func Follow(t testing.TB, northbound []string) *Follower {
	t.Helper()
	f := &Follower{SB: Start(t, "ovn-sb"), remotes: strings.Join(northbound, ",")}
	f.Restart()
	return f
}

// Restart restarts ovn-northd, because a northd that has seen a cluster rejects a younger one.
func (f *Follower) Restart() {
	f.SB.t.Helper()
	if f.northd != nil {
		f.northd.signal(syscall.SIGKILL)
	}
	control := filepath.Join(f.SB.dir, "northd.ctl")
	restart(f.SB.t, &f.northd, f.SB.dir, "ovn-northd", "-vconsole:warn", "--ovnnb-db="+f.remotes,
		"--ovnsb-db="+f.SB.Endpoint(), "--unixctl="+control)
	f.northd.ready(f.SB.t, control)
}

// NorthdPID is northd's process.
func (f *Follower) NorthdPID() int { return f.northd.cmd.Process.Pid }
