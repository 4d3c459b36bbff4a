//go:build e2e

package central

import (
	"github.com/weft-network/weft/pkg/unit"
	"github.com/weft-network/weft/test/bench/figures"
	"github.com/weft-network/weft/test/bench/probe"
)

// agentKind is a kind of client of which each node runs one.
type agentKind struct {
	name    string
	monitor func(w *world, node int) (probe.Monitor, error)
}

var agentKinds = []agentKind{
	{"ovn-controller, all", func(*world, int) (probe.Monitor, error) { return probe.Controller(nil) }},
	{"ovn-controller, conditions", func(w *world, node int) (probe.Monitor, error) {
		local, err := w.sb.Local(nodeName(node), chassisName(node))
		if err != nil {
			return nil, err
		}
		return probe.Controller(probe.Some(local))
	}},
	{"Weft's agent", func(_ *world, node int) (probe.Monitor, error) { return probe.Node(chassisName(node)), nil }},
}

// agents connects agents one after the other, and then creates and deletes pods while they watch.
func (w *world) agents(kind agentKind) {
	w.Helper()
	server := w.central.SB.PID()
	connected := make([]*probe.Agent, 0, *agents)
	defer func() {
		for _, a := range connected {
			a.Close()
		}
		w.sync()
	}()
	idle := w.churn()
	var further float64
	for i := range *agents {
		monitor, err := kind.monitor(w, i*w.size.Zones%w.size.Nodes)
		w.must(err)
		before := w.cpu(server)
		a, err := probe.Connect(w.central.SB.Endpoint(), monitor)
		w.must(err)
		connected = append(connected, a)
		cost := figures.Milliseconds(w.cpu(server) - before)
		if i > 0 {
			further += cost / float64(*agents-1)
			continue
		}
		w.note(float64(a.Whole)/1e6, false, "%s, MB of a whole copy", kind.name)
		w.note(cost, false, "%s, SB server CPU ms for the first", kind.name)
	}
	w.note(further, false, "%s, SB server CPU ms for each further", kind.name)
	_, sent := connected[0].Updates()
	w.note(1000*(w.churn()-idle)/float64(len(connected)), false, "%s, SB server CPU µs for each and change", kind.name)
	_, now := connected[0].Updates()
	w.note(float64(now-sent)/float64(4**rounds)/1000, false, "%s, kB of each change", kind.name)
}

// churn creates and deletes pods. It returns the CPU time, in milliseconds, that each change costs the southbound
// server.
func (w *world) churn() float64 {
	w.Helper()
	changes := 4 * *rounds
	w.sync()
	server := w.cpu(w.central.SB.PID())
	for i := range changes {
		u := w.pod(w.newPod(i / 2))
		if i%2 == 1 {
			u = unit.Unit{Key: u.Key}
		}
		w.one(u)
		w.sync()
	}
	return figures.Milliseconds(w.cpu(w.central.SB.PID())-server) / float64(changes)
}
