package service

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// causedAt returns a slice whose last change has the given time in seconds.
func causedAt(second int64) discoveryv1.EndpointSlice {
	at := time.Unix(second, 0).UTC().Format(time.RFC3339Nano)
	annotations := map[string]string{corev1.EndpointsLastChangeTriggerTime: at}
	return discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Annotations: annotations}}
}

func TestEachChangeIsMeasuredOnce(t *testing.T) {
	now := int64(100)
	var measured []time.Duration
	l := latency{observe: func(d time.Duration) { measured = append(measured, d) }, now: func() time.Time { return time.Unix(now, 0) }}
	web, other := types.NamespacedName{Name: "web"}, types.NamespacedName{Name: "other"}

	l.applied(web, []discoveryv1.EndpointSlice{causedAt(90)}) // a start: the cause is long ago
	now = 110
	l.applied(web, []discoveryv1.EndpointSlice{causedAt(90), causedAt(108)})
	l.applied(web, []discoveryv1.EndpointSlice{causedAt(90), causedAt(108)})
	l.applied(other, nil)
	now = 120
	l.applied(web, []discoveryv1.EndpointSlice{causedAt(119)})
	l.applied(other, []discoveryv1.EndpointSlice{{}, causedAt(117)})
	if want := []time.Duration{2 * time.Second, time.Second, 3 * time.Second}; !slices.Equal(measured, want) {
		t.Errorf("measured %v, want %v", measured, want)
	}
	l.forget(web)
	if len(l.seen) != 1 {
		t.Errorf("%v is remembered, want the service that exists", l.seen)
	}
}
