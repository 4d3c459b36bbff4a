package metrics

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weft-network/weft/pkg/health"
)

// patience is how long a condition may be bad, as in the alert WeftDegraded. patienceUnderway is how long if it becomes good by itself,
// as in WeftProgressingForLong.
const (
	patience         = 10 * time.Minute
	patienceUnderway = 30 * time.Minute
)

// waiting counts, at each scrape, the conditions that have been bad for longer than their time.
type waiting struct {
	objects *prometheus.Desc
	now     func() time.Time
	mu      sync.Mutex
	bad     []health.Wait
}

func newWaiting() *waiting {
	return &waiting{now: time.Now, objects: prometheus.NewDesc("weft_objects_waiting",
		"Objects with a condition that has not been good for 10 minutes, or for 30 if it becomes good by itself, exported by the leader. "+
			"Their names are in kubectl weft status. NodeNetworks and the ClusterNetwork are in weft_area_state.",
		[]string{"kind", "type", "reason"}, nil)}
}

// set replaces the conditions that are not good.
func (w *waiting) set(bad []health.Wait) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.bad = bad
}

// Describe implements prometheus.Collector.
func (w *waiting) Describe(to chan<- *prometheus.Desc) { to <- w.objects }

// Collect implements prometheus.Collector.
func (w *waiting) Collect(to chan<- prometheus.Metric) {
	w.mu.Lock()
	defer w.mu.Unlock()
	counts, now := map[[3]string]int{}, w.now()
	for _, c := range w.bad {
		limit := patience
		if c.Underway {
			limit = patienceUnderway
		}
		if now.Sub(c.Since.Time) > limit {
			counts[[3]string{c.Kind, c.Type, c.Reason}]++
		}
	}
	for of, n := range counts {
		to <- prometheus.MustNewConstMetric(w.objects, prometheus.GaugeValue, float64(n), of[:]...)
	}
}
