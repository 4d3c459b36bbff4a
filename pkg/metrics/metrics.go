// Package metrics counts what Weft does, for Prometheus.
package metrics

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics are the counters of one process.
type Metrics struct {
	transactions *prometheus.CounterVec
	operations   *prometheus.CounterVec
	connected    *prometheus.GaugeVec
	drift        *prometheus.CounterVec
	violations   *prometheus.GaugeVec
	requests     *prometheus.HistogramVec
	programmed   prometheus.Histogram
	propagated   prometheus.Histogram
	areas        *prometheus.GaugeVec
	nodes        *prometheus.GaugeVec

	mu sync.Mutex
	up map[string]bool // database -> it is connected
}

// New registers the metrics.
func New(registry prometheus.Registerer) *Metrics {
	m := &Metrics{
		transactions: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "weft_ovsdb_transactions_total",
			Help: "Transactions sent to an OVSDB database. kind write changes rows; kind fence takes the epoch; kind heartbeat proves that the writer is not blind. outcome is committed or failed."},
			[]string{"database", "kind", "outcome"}),
		operations: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "weft_ovsdb_operations_total",
			Help: "Operations in committed transactions."}, []string{"database", "kind"}),
		connected: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "weft_ovsdb_connected",
			Help: "1 while the copy of the database is complete and its connection alive; not there while the program wants none."}, []string{"database"}),
		up: map[string]bool{},
	}
	m.drift = prometheus.NewCounterVec(prometheus.CounterOpts{Name: "weft_ovsdb_drift_total",
		Help: "Differences that somebody else made in rows of Weft. state is Repaired, Standing (only reported) or Collision (a foreign row has the name of one of ours)."},
		[]string{"database", "table", "state"})
	m.violations = prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "weft_invariant_violations",
		Help: "Places where an invariant did not hold at the leader's last check, which is every 5 minutes. docs/topology.md lists the invariants."},
		[]string{"invariant"})
	m.requests = prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "weft_cni_request_duration_seconds",
		Help:    "Time that the agent took for a CNI request, waiting for the pod's port included. outcome is ok or error.",
		Buckets: prometheus.ExponentialBuckets(0.005, 2, 14)}, []string{"command", "outcome"})
	m.programmed = prometheus.NewHistogram(prometheus.HistogramOpts{Name: "weft_service_programming_seconds",
		Help:    "Time from what changed a service's endpoints, by the annotation of its EndpointSlices, until the northbound database had it.",
		Buckets: prometheus.ExponentialBuckets(0.005, 2, 14)})
	m.propagated = prometheus.NewHistogram(prometheus.HistogramOpts{Name: "weft_service_propagation_seconds",
		Help:    "Time from the northbound database until every chassis had installed a change of a service's endpoints; measured at most once a minute.",
		Buckets: prometheus.ExponentialBuckets(0.005, 2, 14)})
	m.areas = prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "weft_area_state",
		Help: "How each area of ClusterNetwork's status is, told by the leader: 0 OK, 1 progressing, 2 degraded, 3 unavailable."}, []string{"area"})
	m.nodes = prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "weft_nodes",
		Help: "Nodes of the cluster, told by the leader. state is ready or unready."}, []string{"state"})
	registry.MustRegister(m.areas, m.nodes, m.transactions, m.operations, m.connected, m.drift, m.violations, m.requests, m.programmed, m.propagated)
	return m
}

// Transaction implements ovndb.Observer.
func (m *Metrics) Transaction(database, kind string, operations int, err error) {
	if err != nil {
		m.transactions.WithLabelValues(database, kind, "failed").Inc()
		return
	}
	m.transactions.WithLabelValues(database, kind, "committed").Inc()
	m.operations.WithLabelValues(database, kind).Add(float64(operations))
}

// Connected implements ovndb.Observer.
func (m *Metrics) Connected(database string, up bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	value := 0.0
	if up {
		value = 1
		for _, outcome := range []string{"committed", "failed"} {
			m.transactions.WithLabelValues(database, "write", outcome).Add(0) // visible as 0 from the first scrape
		}
	}
	m.up[database] = up
	m.connected.WithLabelValues(database).Set(value)
}

// Reachable says that a server of a database answers a process that had given it up. It has no connection because it wants none: another leads.
func (m *Metrics) Reachable(database string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.up[database] {
		m.connected.DeleteLabelValues(database)
	}
}

// Drift implements ovndb.Observer.
func (m *Metrics) Drift(database, table, state string) {
	m.drift.WithLabelValues(database, table, state).Inc()
}

// Violations tells how often an invariant was violated at the last check.
func (m *Metrics) Violations(invariant string, n int) {
	m.violations.WithLabelValues(invariant).Set(float64(n))
}

// Reported tells what the ClusterNetwork's status says: states by area, and nodes.
func (m *Metrics) Reported(areas map[string]int, ready, total int) {
	for area, state := range areas {
		m.areas.WithLabelValues(area).Set(float64(state))
	}
	m.nodes.WithLabelValues("ready").Set(float64(ready))
	m.nodes.WithLabelValues("unready").Set(float64(total - ready))
}

// Forget takes back what only a leader knows.
func (m *Metrics) Forget() {
	m.areas.Reset()
	m.nodes.Reset()
	m.violations.Reset()
}

// Propagated observes how long one change was on its way from the database to every chassis.
func (m *Metrics) Propagated(took time.Duration) { m.propagated.Observe(took.Seconds()) }

// Programmed observes one change of a service's endpoints.
func (m *Metrics) Programmed(took time.Duration) { m.programmed.Observe(took.Seconds()) }

// Request observes one CNI request: command is ADD, DEL, CHECK or STATUS.
func (m *Metrics) Request(command string, elapsed time.Duration, err error) {
	outcome := "ok"
	if err != nil {
		outcome = "error"
	}
	m.requests.WithLabelValues(command, outcome).Observe(elapsed.Seconds())
}
