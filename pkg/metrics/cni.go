package metrics

import "github.com/prometheus/client_golang/prometheus"

// CNI are an agent's counters of pods' interfaces.
type CNI struct {
	collected *prometheus.CounterVec
}

// NewCNI registers the metrics.
func NewCNI(registry prometheus.Registerer) *CNI {
	m := &CNI{
		collected: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "weft_cni_collected_total",
			Help: "Interfaces of pods that were removed although no DEL reached the agent. reason is gc (the runtime's GC did not list it), sandbox (its pod's port and its sandbox are gone) or tombstone (its DEL came while no agent ran)."},
			[]string{"reason"}),
	}
	for _, reason := range []string{"gc", "sandbox", "tombstone"} {
		m.collected.WithLabelValues(reason).Add(0) // visible from the first scrape
	}
	registry.MustRegister(m.collected)
	return m
}

// Collected counts one interface that was removed without a DEL: reason is gc, sandbox or tombstone.
func (m *CNI) Collected(reason string) { m.collected.WithLabelValues(reason).Inc() }
