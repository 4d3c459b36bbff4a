package metrics

import (
	"errors"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

func TestCountsByKindAndOutcome(t *testing.T) {
	m := New(prometheus.NewRegistry())
	m.Connected("OVN_Northbound", true)
	if got := testutil.ToFloat64(m.transactions.WithLabelValues("OVN_Northbound", "write", "committed")); got != 0 {
		t.Errorf("%v writes before any", got)
	}
	m.Transaction("OVN_Northbound", "write", 3, nil)
	m.Transaction("OVN_Northbound", "write", 5, errors.New("refused"))
	m.Transaction("OVN_Northbound", "fence", 1, nil)
	for labels, want := range map[[2]string]float64{{"write", "committed"}: 1, {"write", "failed"}: 1, {"fence", "committed"}: 1} {
		if got := testutil.ToFloat64(m.transactions.WithLabelValues("OVN_Northbound", labels[0], labels[1])); got != want {
			t.Errorf("%v: %v, want %v", labels, got, want)
		}
	}
	if got := testutil.ToFloat64(m.operations.WithLabelValues("OVN_Northbound", "write")); got != 3 {
		t.Errorf("%v operations, want those of the committed one, 3", got)
	}
	m.Violations("UniqueMAC", 2)
	m.Violations("UniqueMAC", 1)
	if got := testutil.ToFloat64(m.violations.WithLabelValues("UniqueMAC")); got != 1 {
		t.Errorf("%v violations, want those of the last check, 1", got)
	}
	m.Request("ADD", 30*time.Millisecond, nil)
	m.Request("ADD", time.Second, errors.New("no port"))
	if got := testutil.CollectAndCount(m.requests); got != 2 {
		t.Errorf("%d series of requests, want one for each outcome", got)
	}
}

// Who stands by is not blind: it wants no connection. Who leads is not touched by what an earlier leadership asked.
func TestADatabaseThatIsReachedAgainIsNotAway(t *testing.T) {
	m := New(prometheus.NewRegistry())
	m.Connected("OVN_Northbound", false)
	if got := testutil.ToFloat64(m.connected.WithLabelValues("OVN_Northbound")); got != 0 {
		t.Errorf("%v before the first connection", got)
	}
	m.Reachable("OVN_Northbound")
	if got := testutil.CollectAndCount(m.connected); got != 0 {
		t.Errorf("%d series of a database that answers and is not wanted", got)
	}
	m.Connected("OVN_Northbound", true)
	m.Reachable("OVN_Northbound")
	if got := testutil.ToFloat64(m.connected.WithLabelValues("OVN_Northbound")); got != 1 {
		t.Errorf("%v while it is connected", got)
	}
	if got := testutil.ToFloat64(m.transactions.WithLabelValues("OVN_Northbound", "write", "failed")); got != 0 {
		t.Errorf("%v writes failed before any", got)
	}
}
