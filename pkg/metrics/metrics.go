// Package metrics counts what Weft does, for Prometheus.
package metrics

import (
	"github.com/prometheus/client_golang/prometheus"
)

// Metrics are the counters of one process.
type Metrics struct {
	transactions *prometheus.CounterVec
	operations   *prometheus.CounterVec
	connected    *prometheus.GaugeVec
}

// New registers the metrics.
func New(registry prometheus.Registerer) *Metrics {
	m := &Metrics{
		transactions: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "weft_ovsdb_transactions_total",
			Help: "Transactions sent to an OVSDB database. kind write changes rows; kind fence takes the epoch. outcome is committed or failed."},
			[]string{"database", "kind", "outcome"}),
		operations: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "weft_ovsdb_operations_total",
			Help: "Operations in committed transactions."}, []string{"database", "kind"}),
		connected: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "weft_ovsdb_connected",
			Help: "1 while the copy of the database is complete and its connection alive."}, []string{"database"}),
	}
	registry.MustRegister(m.transactions, m.operations, m.connected)
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
