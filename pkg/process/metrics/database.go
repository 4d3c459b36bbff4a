package metrics

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// Database holds the metrics of a program's OVSDB connections. It implements ovndb.Observer.
type Database struct {
	transactions *prometheus.CounterVec
	operations   *prometheus.CounterVec
	connected    *prometheus.GaugeVec
	drift        *prometheus.CounterVec

	mu sync.Mutex
	up map[string]bool // database -> it is connected
}

func newDatabase(registry prometheus.Registerer) *Database {
	m := &Database{
		transactions: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "weft_ovsdb_transactions_total",
			Help: "Transactions sent to an OVSDB database. kind write changes rows; kind fence takes the epoch; " +
				"kind heartbeat proves that the writer is not blind. outcome is committed or failed."},
			[]string{"database", "kind", "outcome"}),
		operations: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "weft_ovsdb_operations_total",
			Help: "Operations in committed transactions."}, []string{"database", "kind"}),
		connected: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "weft_ovsdb_connected",
			Help: "1 while the copy of the database is complete and its connection is alive; absent while the " +
				"program needs no connection."}, []string{"database"}),
		up: map[string]bool{},
	}
	m.drift = prometheus.NewCounterVec(prometheus.CounterOpts{Name: "weft_ovsdb_drift_total",
		Help: "Changes that other programs made to rows of Weft. state is Repaired, Standing (only reported) " +
			"or Collision (a foreign row has the name of one of Weft's rows)."},
		[]string{"database", "table", "state"})
	registry.MustRegister(m.transactions, m.operations, m.connected, m.drift)
	return m
}

// Transaction implements ovndb.Observer.
func (m *Database) Transaction(database, kind string, operations int, err error) {
	if err != nil {
		m.transactions.WithLabelValues(database, kind, "failed").Inc()
		return
	}
	m.transactions.WithLabelValues(database, kind, "committed").Inc()
	m.operations.WithLabelValues(database, kind).Add(float64(operations))
}

// Connected implements ovndb.Observer.
func (m *Database) Connected(database string, up bool) {
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

// Reachable deletes the connection series of a database that responds again after this process gave it up, unless the
// process is connected. A standby needs no connection, so its absence is no fault.
func (m *Database) Reachable(database string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.up[database] {
		m.connected.DeleteLabelValues(database)
	}
}

// Drift implements ovndb.Observer.
func (m *Database) Drift(database, table, state string) {
	m.drift.WithLabelValues(database, table, state).Inc()
}
