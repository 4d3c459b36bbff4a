package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Agent holds the metrics of a node's agent.
type Agent struct {
	*Database
	requests  *prometheus.HistogramVec
	collected *prometheus.CounterVec
	stages    *prometheus.HistogramVec
	failed    *prometheus.CounterVec
	failing   prometheus.Gauge
}

// NewAgent registers the metrics of an agent. stages are the stages at which an ADD can fail.
func NewAgent(registry prometheus.Registerer, stages ...string) *Agent {
	m := &Agent{
		Database: newDatabase(registry),
		requests: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "weft_cni_request_duration_seconds",
			Help:    "Time that the agent took for a CNI request, including the wait for the pod's port. outcome is ok or error.",
			Buckets: prometheus.ExponentialBuckets(0.005, 2, 14)}, []string{"command", "outcome"}),
		collected: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "weft_cni_collected_total",
			Help: "Interfaces of pods that were removed although no DEL reached the agent. reason is gc (the " +
				"runtime's GC did not list it), sandbox (its pod's port and its sandbox are gone) or tombstone " +
				"(its DEL came while no agent ran)."},
			[]string{"reason"}),
		stages: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "weft_cni_stage_seconds",
			Help: "Time that each stage of a successful ADD took after the one before it: node, address (the " +
				"operator, northd), link, port (the node's OVSDB), interface (ovs-vswitchd), binding and flows (ovn-controller), " +
				"and for pods with random host ports host-ports (the operator, northd).",
			Buckets: prometheus.ExponentialBuckets(0.0005, 2, 18)}, []string{"stage"}),
		failed: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "weft_cni_stage_failures_total",
			Help: "ADDs that failed, by the first incomplete stage."}, []string{"stage"}),
	}
	m.failing = prometheus.NewGauge(prometheus.GaugeOpts{Name: "weft_cni_failing_interfaces",
		Help: "Interfaces of pods on this node that differed from their original state at the agent's last check, " +
			"which runs every 5 minutes."})
	for _, reason := range []string{"gc", "sandbox", "tombstone"} {
		m.collected.WithLabelValues(reason).Add(0) // visible from the first scrape
	}
	for _, stage := range stages {
		// otherwise the first failures of a stage, which occur together, would be no increase
		m.failed.WithLabelValues(stage).Add(0)
	}
	registry.MustRegister(m.requests, m.collected, m.stages, m.failed, m.failing)
	return m
}

// Collected counts one interface that was removed without a DEL. reason is gc, sandbox or tombstone.
func (m *Agent) Collected(reason string) { m.collected.WithLabelValues(reason).Inc() }

// Stage observes one stage of a successful ADD.
func (m *Agent) Stage(stage string, took time.Duration) {
	m.stages.WithLabelValues(stage).Observe(took.Seconds())
}

// StageFailed counts an ADD that failed at a stage.
func (m *Agent) StageFailed(stage string) { m.failed.WithLabelValues(stage).Inc() }

// Failing sets how many interfaces of pods differed from their original state.
func (m *Agent) Failing(interfaces int) { m.failing.Set(float64(interfaces)) }

// Request observes one CNI request. command is ADD, DEL, CHECK or STATUS.
func (m *Agent) Request(command string, elapsed time.Duration, err error) {
	outcome := "ok"
	if err != nil {
		outcome = "error"
	}
	m.requests.WithLabelValues(command, outcome).Observe(elapsed.Seconds())
}
