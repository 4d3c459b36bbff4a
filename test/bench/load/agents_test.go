//go:build e2e

package load

import (
	"flag"
	"fmt"

	"github.com/weft-network/weft/pkg/ovndb/ovndbtest"
	"github.com/weft-network/weft/test/bench/figures"
	"github.com/weft-network/weft/test/bench/probe"
)

var (
	agentCount = flag.Int("agents", 0,
		"number of monitors of a southbound database, like those of ovn-controllers; unless it is 0, ovn-northd runs")
	conditions = flag.Bool("conditions", false,
		"the agents monitor only what their node needs, like ovn-controllers without ovn-monitor-all, which Weft sets")
)

// southbound is everything after the northbound database: northd, the southbound database, and agents that watch it.
type southbound struct {
	*ovndbtest.Follower
	db     *probe.Southbound
	agents []*probe.Agent
}

// follow starts southbound, if there are agents.
func (w *world) follow() {
	w.Helper()
	if *agentCount == 0 {
		return
	}
	w.south = &southbound{Follower: ovndbtest.Follow(w.T, w.nb.remotes())}
	w.pids[figures.Northd], w.pids[figures.Southbound] = w.south.NorthdPID(), w.south.SB.PID()
	var err error
	w.south.db, err = probe.DialSouthbound(w.south.SB.Endpoint())
	w.must(err)
	w.Cleanup(w.south.db.Close)
}

// watchSouthbound registers every node's chassis and connects the agents, one after the other.
func (w *world) watchSouthbound(size figures.Size) (watched figures.Agents) {
	w.Helper()
	if w.south == nil {
		return watched
	}
	chassis := make([]probe.Chassis, 0, size.Nodes)
	for i := range size.Nodes {
		chassis = append(chassis, probe.Chassis{Name: "chassis-" + nodeName(i), Address: fmt.Sprintf("172.16.%d.%d", i/250, i%250+1)})
	}
	w.must(w.south.db.Register(chassis...))
	w.rest()
	before, err := probe.Exact(w.south.SB.PID())
	w.must(err)
	memory, err := probe.Resident(w.south.SB.PID())
	w.must(err)
	for i := range *agentCount {
		monitor, err := w.monitorOf(i % size.Nodes)
		w.must(err)
		agent, err := probe.Connect(w.south.SB.Endpoint(), monitor)
		w.must(err)
		w.Cleanup(agent.Close)
		w.south.agents = append(w.south.agents, agent)
	}
	after, err := probe.Exact(w.south.SB.PID())
	w.must(err)
	now, err := probe.Resident(w.south.SB.PID())
	w.must(err)
	return figures.Agents{N: *agentCount, WholeMB: float64(w.south.agents[0].Whole) / 1e6,
		ConnectCPUms: figures.Milliseconds(after-before) / float64(*agentCount),
		ConnectMB:    (now - memory) / float64(*agentCount)}
}

func (w *world) monitorOf(node int) (probe.Monitor, error) {
	if !*conditions {
		return probe.Controller(nil)
	}
	local, err := w.south.db.Local(nodeName(node), "chassis-"+nodeName(node))
	if err != nil {
		return nil, err
	}
	return probe.Controller(probe.Some(local))
}

// sent returns the number of bytes sent to all agents so far.
func (w *world) sent() (bytes float64) {
	if w.south == nil {
		return 0
	}
	for _, agent := range w.south.agents {
		_, n := agent.Updates()
		bytes += float64(n)
	}
	return bytes
}

// follows lists the processes that may still be busy when the controller is idle.
func (w *world) follows() []string {
	if w.south == nil {
		return []string{figures.Controller}
	}
	return []string{figures.Controller, figures.Northd, figures.Southbound}
}
