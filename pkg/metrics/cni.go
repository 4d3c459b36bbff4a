package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// CNI are an agent's counters of pods' interfaces.
type CNI struct {
	collected *prometheus.CounterVec
	stages    *prometheus.HistogramVec
	failed    *prometheus.CounterVec
	failing   prometheus.Gauge
}

// NewCNI registers the metrics; stages are those at which an ADD can fail.
func NewCNI(registry prometheus.Registerer, stages ...string) *CNI {
	m := &CNI{
		collected: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "weft_cni_collected_total",
			Help: "Interfaces of pods that were removed although no DEL reached the agent. reason is gc (the runtime's GC did not list it), sandbox (its pod's port and its sandbox are gone) or tombstone (its DEL came while no agent ran)."},
			[]string{"reason"}),
		stages: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "weft_cni_stage_seconds",
			Help:    "Time that each stage of a successful ADD took after the one before it: node, address (the operator, northd), link, port (the node's OVSDB), interface (ovs-vswitchd), binding and flows (ovn-controller).",
			Buckets: prometheus.ExponentialBuckets(0.0005, 2, 18)}, []string{"stage"}),
		failed: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "weft_cni_stage_failures_total",
			Help: "ADDs that failed, by the first stage that had not come."}, []string{"stage"}),
	}
	m.failing = prometheus.NewGauge(prometheus.GaugeOpts{Name: "weft_cni_failing_interfaces",
		Help: "Interfaces of pods on this node that were not as they were made at the agent's last check, which is every 5 minutes."})
	for _, reason := range []string{"gc", "sandbox", "tombstone"} {
		m.collected.WithLabelValues(reason).Add(0) // visible from the first scrape
	}
	for _, stage := range stages {
		m.failed.WithLabelValues(stage).Add(0) // else the first failures of a stage, which come together, would be no increase
	}
	registry.MustRegister(m.collected, m.stages, m.failed, m.failing)
	return m
}

// Collected counts one interface that was removed without a DEL: reason is gc, sandbox or tombstone.
func (m *CNI) Collected(reason string) { m.collected.WithLabelValues(reason).Inc() }

// Stage observes one stage of an ADD that succeeded.
func (m *CNI) Stage(stage string, took time.Duration) {
	m.stages.WithLabelValues(stage).Observe(took.Seconds())
}

// StageFailed counts an ADD that ended at a stage.
func (m *CNI) StageFailed(stage string) { m.failed.WithLabelValues(stage).Inc() }

// Failing tells how many interfaces of pods were not as they were made.
func (m *CNI) Failing(interfaces int) { m.failing.Set(float64(interfaces)) }
