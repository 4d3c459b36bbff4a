package metrics

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

func TestCollectedCountsByReason(t *testing.T) {
	m := NewCNI(prometheus.NewRegistry())
	m.Collected("gc")
	for reason, want := range map[string]float64{"gc": 1, "sandbox": 0, "tombstone": 0} {
		if got := testutil.ToFloat64(m.collected.WithLabelValues(reason)); got != want {
			t.Errorf("%s: %v, want %v", reason, got, want)
		}
	}
	if got := testutil.CollectAndCount(m.collected); got != 3 {
		t.Errorf("%d series before anything happened, want one for each reason", got)
	}
}
