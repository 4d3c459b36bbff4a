package ui

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

// noon is when the tested command began.
var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

func atNoon() time.Time { return noon }

// feedOf returns the feed of a kind.
func feedOf(t *testing.T, all []*feed, kind string) *feed {
	t.Helper()
	for _, f := range all {
		if f.kind == kind {
			return f
		}
	}
	t.Fatalf("no feed has the kind %s", kind)
	return nil
}

// texts returns the log as lines: time, object, change.
func (h *hub) texts() (all []string) {
	for _, e := range h.log {
		all = append(all, fmt.Sprintf("%s %s %s", e.At.UTC().Format("15:04"), e.ID, e.What))
	}
	return all
}

// The log begins with what objects say about their own past, and goes on with what changes. A later list that repeats an
// object is no change.
func TestTheLogHasHistory(t *testing.T) {
	h := newHub(atNoon)
	feeds := newFeeds(h)
	egress := feedOf(t, feeds, "EgressIP")
	e := &networkv1alpha1.EgressIP{ObjectMeta: metav1.ObjectMeta{Name: "web", CreationTimestamp: metav1.Time{Time: noon.Add(-3 * time.Hour)}}}
	e.Spec.EgressIPs = []networkv1alpha1.EgressAddress{"192.0.2.7"}
	e.Status.Conditions = []metav1.Condition{{Type: "Assigned", Status: "False", Message: "no node",
		LastTransitionTime: metav1.Time{Time: noon.Add(-time.Hour)}}}
	event := &corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "e"}, Reason: "FailedNetworkAttachment", Message: "no room",
		InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: "demo", Name: "web"}, Type: corev1.EventTypeWarning,
		LastTimestamp: metav1.Time{Time: noon.Add(-2 * time.Hour)}}
	for _, f := range feeds {
		switch f.kind {
		case "EgressIP":
			_ = f.Replace([]any{e}, "1")
		case "Event":
			_ = f.Replace([]any{event}, "1")
		default:
			_ = f.Replace(nil, "1")
		}
	}
	want := []string{"09:00 EgressIP/web created", "10:00 Pod/demo/web FailedNetworkAttachment: no room",
		"11:00 EgressIP/web Assigned is False: no node"}
	if diff := cmp.Diff(want, h.texts()); diff != "" {
		t.Error(diff)
	}
	s, _ := h.subscribe()
	_ = egress.Replace([]any{e.DeepCopy()}, "2")
	assigned := e.DeepCopy()
	assigned.Status.Conditions[0].Status = "True"
	_ = egress.Update(assigned)
	_ = egress.Delete(assigned)
	if diff := cmp.Diff(append(want, "12:00 EgressIP/web changed", "12:00 EgressIP/web removed"), h.texts()); diff != "" {
		t.Error(diff)
	}
	if len(s.logged) != 2 || !cmp.Equal(s.logged[0].Fields, []logField{{"state", "Not assigned", "Assigned"}}) {
		t.Errorf("the browser gets %+v", s.logged)
	}
	later := event.DeepCopy()
	later.LastTimestamp = metav1.Time{Time: noon.Add(time.Minute)}
	_ = feedOf(t, feeds, "Event").Update(later)
	if got := h.texts(); len(got) != len(want)+2 || got[len(got)-1] != "12:01 Pod/demo/web FailedNetworkAttachment: no room" {
		t.Errorf("a repeated Event: %q", got)
	}
}

// The log keeps the latest changes, whatever the order in which objects are listed.
func TestTheLogIsBounded(t *testing.T) {
	h := newHub(atNoon)
	services := feedOf(t, newFeeds(h), "Service")
	s, _ := h.subscribe()
	var list []any
	for i := range 3 * longestLog {
		list = append(list, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: fmt.Sprint(i),
			CreationTimestamp: metav1.Time{Time: noon.Add(time.Duration(i*7%(3*longestLog)) * time.Second)}}})
	}
	_ = services.Replace(list, "1")
	if len(h.log) != longestLog || len(s.logged) > longestLog {
		t.Errorf("%d entries in the log, %d for the browser", len(h.log), len(s.logged))
	}
	if first := h.log[0].At; !first.Equal(noon.Add(2 * longestLog * time.Second)) {
		t.Errorf("the log begins at %s", first)
	}
}
