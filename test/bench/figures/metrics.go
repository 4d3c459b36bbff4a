package figures

import (
	"fmt"
	"maps"
	"slices"
)

// Metric is one figure of a run.
type Metric struct {
	Name  string
	Value float64
	// Counted figures depend on no clock and must be equal. Other figures differ by a fifth between runs even on an
	// idle machine.
	Counted bool
	// More is set if larger values are better.
	More bool
	// PerEvent marks a cost that must not grow with the cluster.
	PerEvent bool
}

// Metrics lists the figures of a run that are compared, always in the same order.
func (r Run) Metrics() []Metric {
	all := []Metric{
		{Name: "API server alone, pods/s", Value: r.APIServer.PerSecond, More: true},
		{Name: "NB server alone, ports/s", Value: r.Database.PerSecond, More: true},
		{Name: "storm, pods created/s", Value: r.Storm.CreatedPerSecond, More: true},
		{Name: "storm, pods in NB/s", Value: r.Storm.WiredPerSecond, More: true},
	}
	if r.Agents.N > 0 {
		all = append(all, Metric{Name: "agents", Value: float64(r.Agents.N), Counted: true},
			Metric{Name: "agent connects, MB sent", Value: r.Agents.WholeMB, PerEvent: true},
			Metric{Name: "agent connects, SB server CPU ms", Value: r.Agents.ConnectCPUms, PerEvent: true},
			Metric{Name: "agent connects, SB server memory MB", Value: r.Agents.ConnectMB, PerEvent: true})
	}
	all = append(all, spread("storm, lag", r.Storm.Lag)...)
	all = append(all, cost("storm, per pod", r.Storm.PerPod)...)
	for _, kind := range slices.Sorted(maps.Keys(r.Events)) {
		all = append(all, spread(kind, r.Events[kind].Latency)...)
		all = append(all, cost(kind, r.Events[kind].Each)...)
	}
	if round, ok := r.Round(); ok {
		all = append(all, cost("round", round)...)
	}
	all = append(all, node(r.Nodes)...)
	if r.Floating.N > 0 {
		all = append(all, Metric{Name: "floating storm, pods in NB/s", Value: float64(r.Floating.N) / r.Floating.Seconds, More: true})
		all = append(all, cost("floating storm, per pod", r.Floating.Cost.Per(r.Floating.N))...)
	}
	all = append(all,
		Metric{Name: "restart, first pod s", Value: r.Restart.FirstPodSeconds},
		Metric{Name: "restart, NB transactions", Value: r.Restart.Cost.Transactions, Counted: true},
		Metric{Name: "restart, API writes", Value: r.Restart.Cost.Writes, Counted: true},
		Metric{Name: "restart, controller CPU ms", Value: r.Restart.Cost.CPUms[Controller]},
		Metric{Name: "rebuild, s", Value: r.Rebuild.Seconds},
		Metric{Name: "rebuild, NB transactions", Value: r.Rebuild.Cost.Transactions},
		Metric{Name: "rebuild, controller CPU ms", Value: r.Rebuild.Cost.CPUms[Controller]})
	for _, process := range slices.Sorted(maps.Keys(r.PeakMB)) {
		all = append(all, Metric{Name: fmt.Sprintf("peak memory of %s, MB", process), Value: r.PeakMB[process]})
	}
	return all
}

// Names of processes. Controller is the measured controller. Northd and Southbound run only with agents.
const (
	Controller = "controller"
	Northd     = "ovn-northd"
	Southbound = "ovsdb-server SB"
)

func spread(name string, s Spread) []Metric {
	return []Metric{{Name: name + " p50 ms", Value: s.P50, PerEvent: true}, {Name: name + " p90 ms", Value: s.P90},
		{Name: name + " p99 ms", Value: s.P99}}
}

func cost(name string, c Cost) []Metric {
	all := []Metric{
		{Name: name + ", controller CPU ms", Value: c.CPUms[Controller], PerEvent: true},
		{Name: name + ", all CPU ms", Value: c.Total(), PerEvent: true},
		{Name: name + ", NB transactions", Value: c.Transactions, PerEvent: true},
		{Name: name + ", NB rows", Value: c.Rows, PerEvent: true},
		{Name: name + ", API writes", Value: c.Writes},
	}
	for _, process := range []string{Northd, Southbound} {
		if spent, ran := c.CPUms[process]; ran {
			all = append(all, Metric{Name: name + ", CPU ms of " + process, Value: spent, PerEvent: true})
		}
	}
	if c.Sent > 0 {
		all = append(all, Metric{Name: name + ", kB sent to agents", Value: c.Sent / 1000, PerEvent: true})
	}
	return all
}

// node returns the cost of a joining node while other nodes join.
func node(joined Phase) []Metric {
	if joined.N == 0 {
		return nil
	}
	return append([]Metric{{Name: "nodes join, s", Value: joined.Seconds}}, cost("nodes join, per node", joined.Cost.Per(joined.N))...)
}
