package metrics

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weft-network/weft/pkg/health"
)

// A condition counts from the end of its time on, whatever the number of objects, and only in the leader.
func TestObjectsThatWaitTooLongAreCounted(t *testing.T) {
	registry := prometheus.NewRegistry()
	m := NewOperator(registry)
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	m.waiting.now = func() time.Time { return now }
	bad := func(ago time.Duration, underway bool) health.Wait {
		since := metav1.NewTime(now.Add(-ago))
		return health.Wait{Kind: "Service", Type: "LoadBalancerReady", Reason: "NoPool", Since: since, Underway: underway}
	}
	m.Reported(nil, 1, 1, []health.Wait{bad(10*time.Minute, false), bad(9*time.Minute, false), bad(8*time.Minute, false),
		bad(29*time.Minute, true), bad(20*time.Minute, true)})
	expect := func(text string) {
		t.Helper()
		if err := testutil.GatherAndCompare(registry, strings.NewReader(text), "weft_objects_waiting"); err != nil {
			t.Error(err)
		}
	}
	expect("")
	now = now.Add(90 * time.Second)
	expect("# HELP weft_objects_waiting " + helpOf("weft_objects_waiting") + "\n# TYPE weft_objects_waiting gauge\n" +
		`weft_objects_waiting{kind="Service",reason="NoPool",type="LoadBalancerReady"} 3` + "\n")
	m.Forget()
	expect("")
}

func helpOf(name string) string {
	for _, m := range catalogue() {
		if m.name == name {
			return m.help
		}
	}
	return ""
}

// A workload of which no pod is missing has a series, and a deleted workload none.
func TestMissingPodsOfWorkloads(t *testing.T) {
	m := NewOperator(prometheus.NewRegistry())
	m.Workload("DaemonSet", "weft-agent", 2)
	m.Workload("Deployment", "weft-operator", 0)
	if n := testutil.CollectAndCount(m.workloads); n != 2 || testutil.ToFloat64(m.workloads.WithLabelValues("DaemonSet", "weft-agent")) != 2 {
		t.Errorf("%d series", n)
	}
	m.NoWorkload("DaemonSet", "weft-agent")
	if n := testutil.CollectAndCount(m.workloads); n != 1 {
		t.Errorf("%d series after the deletion", n)
	}
	m.Forget()
	if n := testutil.CollectAndCount(m.workloads); n != 0 {
		t.Errorf("%d series after the leadership", n)
	}
}
