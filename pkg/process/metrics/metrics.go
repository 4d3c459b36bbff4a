// Package metrics exports what Weft's programs do, for Prometheus. Each program has one constructor, which registers
// only the series of that program. A series of another program would be exported as a meaningless zero.
package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weft-network/weft/pkg/health"
)

// Operator holds the metrics of the operator.
type Operator struct {
	*Database
	violations  *prometheus.GaugeVec
	programmed  prometheus.Histogram
	propagated  prometheus.Histogram
	areas       *prometheus.GaugeVec
	nodes       *prometheus.GaugeVec
	balancers   *prometheus.GaugeVec
	sessions    *prometheus.GaugeVec
	bfdSessions *prometheus.GaugeVec
	workloads   *prometheus.GaugeVec
	waiting     *waiting
}

// NewOperator registers the metrics of the operator.
func NewOperator(registry prometheus.Registerer) *Operator {
	m := &Operator{Database: newDatabase(registry), waiting: newWaiting()}
	m.violations = prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "weft_invariant_violations",
		Help: "Violations of an invariant at the leader's last check, which runs every 5 minutes. " +
			"docs/dev/topology.md lists the invariants."},
		[]string{"invariant"})
	m.programmed = prometheus.NewHistogram(prometheus.HistogramOpts{Name: "weft_service_programming_seconds",
		Help: "Time from a change of a service's endpoints, by the annotation of its EndpointSlices, until " +
			"the northbound database had it.",
		Buckets: prometheus.ExponentialBuckets(0.005, 2, 14)})
	m.propagated = prometheus.NewHistogram(prometheus.HistogramOpts{Name: "weft_service_propagation_seconds",
		Help: "Time from the northbound database until every chassis had installed a change, of a service's endpoints or another; " +
			"measured after writes, at most once a minute.",
		Buckets: prometheus.ExponentialBuckets(0.005, 2, 14)})
	m.areas = prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "weft_area_state",
		Help: "State of each area of ClusterNetwork's status, exported by the leader: 0 OK, 1 progressing, 2 degraded, 3 unavailable."},
		[]string{"area"})
	m.nodes = prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "weft_nodes",
		Help: "Nodes of the cluster, exported by the leader. state is ready or unready."}, []string{"state"})
	m.balancers = prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "weft_loadbalancer_addresses",
		Help: "Addresses of a LoadBalancerPool, exported by the leader. state is used, free, or unannounced: used, and no node " +
			"answers for it."}, []string{"pool", "state"})
	m.sessions = prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "weft_bgp_sessions",
		Help: "Nodes that must have a session with a BGPPeer, exported by the leader. state is established or connecting."},
		[]string{"peer", "state"})
	m.bfdSessions = prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "weft_bgp_bfd_sessions",
		Help: "Nodes that must have a session with a BGPPeer with BFD, exported by the leader. state is up or down, of BFD."},
		[]string{"peer", "state"})
	m.workloads = prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "weft_workload_pods_missing",
		Help: "Pods of a Deployment, DaemonSet or StatefulSet of Weft that its present spec wants and that are not available, or have " +
			"another template, exported by the leader."}, []string{"kind", "name"})
	registry.MustRegister(m.waiting, m.workloads, m.sessions, m.bfdSessions, m.balancers, m.areas, m.nodes, m.violations, m.programmed,
		m.propagated)
	return m
}

// Violations sets the number of violations of an invariant at the last check.
func (m *Operator) Violations(invariant string, n int) {
	m.violations.WithLabelValues(invariant).Set(float64(n))
}

// Reported sets the areas' states, the number of nodes and the conditions that are not good from the ClusterNetwork's status.
func (m *Operator) Reported(areas map[string]int, ready, total int, waits []health.Wait) {
	m.waiting.set(waits)
	for area, state := range areas {
		m.areas.WithLabelValues(area).Set(float64(state))
	}
	m.nodes.WithLabelValues("ready").Set(float64(ready))
	m.nodes.WithLabelValues("unready").Set(float64(total - ready))
}

// Workload sets the number of pods that a workload of Weft lacks.
func (m *Operator) Workload(kind, name string, missing int32) {
	m.workloads.WithLabelValues(kind, name).Set(float64(missing))
}

// NoWorkload deletes the series of a deleted workload.
func (m *Operator) NoWorkload(kind, name string) { m.workloads.DeleteLabelValues(kind, name) }

// Announcing sets the number of addresses of a LoadBalancerPool. A pool without addresses does not exist any more.
func (m *Operator) Announcing(pool string, used, free, unannounced int64) {
	if used == 0 && free == 0 {
		m.balancers.DeletePartialMatch(prometheus.Labels{"pool": pool})
		return
	}
	for state, n := range map[string]int64{"used": used, "free": free, "unannounced": unannounced} {
		m.balancers.WithLabelValues(pool, state).Set(float64(n))
	}
}

// Sessions sets the number of nodes with and without a session with a BGPPeer, and with and without its BFD. Without nodes, the
// peer has no series. A nil bfdUp means no BFD.
func (m *Operator) Sessions(peer string, nodes, established int, bfdUp *int32) {
	m.sessions.DeletePartialMatch(prometheus.Labels{"peer": peer})
	m.bfdSessions.DeletePartialMatch(prometheus.Labels{"peer": peer})
	if nodes == 0 {
		return
	}
	m.sessions.WithLabelValues(peer, "established").Set(float64(established))
	m.sessions.WithLabelValues(peer, "connecting").Set(float64(nodes - established))
	if bfdUp != nil {
		m.bfdSessions.WithLabelValues(peer, "up").Set(float64(*bfdUp))
		m.bfdSessions.WithLabelValues(peer, "down").Set(float64(nodes - int(*bfdUp)))
	}
}

// Forget deletes the series that only a leader may export.
func (m *Operator) Forget() {
	m.waiting.set(nil)
	m.workloads.Reset()
	m.areas.Reset()
	m.balancers.Reset()
	m.sessions.Reset()
	m.bfdSessions.Reset()
	m.nodes.Reset()
	m.violations.Reset()
}

// Propagated observes how long one change took from the database to every chassis.
func (m *Operator) Propagated(took time.Duration) { m.propagated.Observe(took.Seconds()) }

// Programmed observes one change of a service's endpoints.
func (m *Operator) Programmed(took time.Duration) { m.programmed.Observe(took.Seconds()) }
