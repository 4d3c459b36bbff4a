// Package metrics counts what Weft does, for Prometheus.
package metrics

import (
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
			Help: "1 while the copy of the database is complete and its connection alive."}, []string{"database"}),
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
	registry.MustRegister(m.transactions, m.operations, m.connected, m.drift, m.violations, m.requests, m.programmed, m.propagated)
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
	value := 0.0
	if up {
		value = 1
		m.transactions.WithLabelValues(database, "write", "committed").Add(0) // visible as 0 from the first scrape
	}
	m.connected.WithLabelValues(database).Set(value)
}

// Drift implements ovndb.Observer.
func (m *Metrics) Drift(database, table, state string) {
	m.drift.WithLabelValues(database, table, state).Inc()
}

// Violations tells how often an invariant was violated at the last check.
func (m *Metrics) Violations(invariant string, n int) {
	m.violations.WithLabelValues(invariant).Set(float64(n))
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
