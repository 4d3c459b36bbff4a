package forbidden

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/events"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/agent/nodeevents"
)

// TestAnAgentRecordsEvents checks that the agent's recorder is allowed, for new and repeated events. client-go's
// recorder would be refused on a host whose name differs from its Node's.
func TestAnAgentRecordsEvents(t *testing.T) {
	w := newWorld(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	seen, err := admin.EventsV1().Events(team).Watch(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer seen.Stop()
	api := typed(t, w.agent["n1"])
	broadcaster := events.NewBroadcaster(nodeevents.NewSink(api, "n1"))
	defer broadcaster.Shutdown()
	if err := broadcaster.StartRecordingToSinkWithContext(ctx); err != nil {
		t.Fatal(err)
	}
	recorder := broadcaster.NewRecorder(api.Scheme(), nodeevents.Controller)
	pod := &corev1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Namespace: team, Name: "plain"}}
	recorder.Eventf(pod, nil, corev1.EventTypeWarning, "FailedInterfaceCreation", "AddInterface", "no flows")
	first := await(t, seen, watch.Added, func(e *eventsv1.Event) bool { return e.Reason == "FailedInterfaceCreation" })
	if first.ReportingInstance != "n1" || first.Note != "no flows" {
		t.Errorf("the event is %+v", first)
	}
	idle := &corev1.Service{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Service"},
		ObjectMeta: metav1.ObjectMeta{Namespace: team, Name: "idle"}}
	recorder.Eventf(idle, nil, corev1.EventTypeNormal, networkv1alpha1.EventNeedPods, "WakeService", "it is needed")
	await(t, seen, watch.Added, func(e *eventsv1.Event) bool { return e.Reason == networkv1alpha1.EventNeedPods })
	recorder.Eventf(pod, nil, corev1.EventTypeWarning, "FailedInterfaceCreation", "AddInterface", "no flows")
	again := await(t, seen, watch.Modified, func(e *eventsv1.Event) bool { return e.Name == first.Name })
	if again.Series == nil || again.Series.Count != 2 {
		t.Errorf("the series is %+v", again.Series)
	}
}

// await returns the first event of a kind that wanted accepts.
func await(t *testing.T, seen watch.Interface, kind watch.EventType, wanted func(*eventsv1.Event) bool) *eventsv1.Event {
	t.Helper()
	for change := range seen.ResultChan() {
		if event, ok := change.Object.(*eventsv1.Event); ok && change.Type == kind && wanted(event) {
			return event
		}
	}
	t.Fatal("the event did not arrive")
	return nil
}
