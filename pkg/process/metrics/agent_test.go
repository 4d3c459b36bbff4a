package metrics

import (
	"errors"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

func TestAgentCounts(t *testing.T) {
	m := NewAgent(prometheus.NewRegistry(), nil, nil)
	m.Collected("gc")
	for reason, want := range map[string]float64{"gc": 1, "sandbox": 0, "tombstone": 0} {
		if got := testutil.ToFloat64(m.collected.WithLabelValues(reason)); got != want {
			t.Errorf("%s: %v, want %v", reason, got, want)
		}
	}
	m.Stage("flows", 10*time.Millisecond)
	m.Stage("flows", 20*time.Millisecond)
	m.Stage("link", time.Millisecond)
	if got := testutil.CollectAndCount(m.stages); got != 2 {
		t.Errorf("%d series of stages, want one for each observed stage", got)
	}
	m.Failing(2)
	m.Failing(1)
	if got := testutil.ToFloat64(m.failing); got != 1 {
		t.Errorf("%v failing, want 1, from the last check", got)
	}
	m.Request("ADD", 30*time.Millisecond, nil)
	m.Request("ADD", time.Second, errors.New("no port"))
	if got := testutil.CollectAndCount(m.requests); got != 2 {
		t.Errorf("%d series of requests, want one for each outcome", got)
	}
	m.StageFailed("binding")
	if got := testutil.ToFloat64(m.failed.WithLabelValues("binding")); got != 1 {
		t.Errorf("%v failures of a stage, want 1", got)
	}
	if got := testutil.CollectAndCount(m.collected); got != 3 {
		t.Errorf("%d series before anything happened, want one for each reason", got)
	}
}

// An alert evaluates the increase. A series that begins with the failures of many pods at once has no increase.
func TestFailuresOfAStageBeginAtZero(t *testing.T) {
	m := NewAgent(prometheus.NewRegistry(), []string{"address", "flows"}, nil)
	if got := testutil.CollectAndCount(m.failed); got != 2 {
		t.Errorf("%d series before any failure, want one for each stage", got)
	}
}
