package annotation

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/weft-network/weft/controllers/kind"
)

// A typo is named once at each object that has it, and again when it changes.
func TestATypoIsNamedAtTheObject(t *testing.T) {
	recorder := events.NewFakeRecorder(10)
	named := func(annotations map[string]string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: "demo", Name: "web", Annotations: annotations}
	}
	typo := map[string]string{"network.weft.dev/idel": "true", "example.com/idel": "true"}
	objects := map[string]func(map[string]string) client.Object{
		"Pod":       func(a map[string]string) client.Object { return &corev1.Pod{ObjectMeta: named(a)} },
		"Service":   func(a map[string]string) client.Object { return &corev1.Service{ObjectMeta: named(a)} },
		"Node":      func(a map[string]string) client.Object { return &corev1.Node{ObjectMeta: named(a)} },
		"Namespace": func(a map[string]string) client.Object { return &metav1.PartialObjectMetadata{ObjectMeta: named(a)} },
	}
	watches := Kinds(&kind.Env{Events: recorder})[0].Watches
	if len(watches) != len(objects) {
		t.Fatalf("%d watches", len(watches))
	}
	for i, of := range []string{"Pod", "Service", "Node", "Namespace"} {
		object, handler := objects[of], watches[i].Handler
		expect := func(when string, want int) {
			t.Helper()
			for range want {
				select {
				case text := <-recorder.Events:
					if !strings.HasPrefix(text, "Warning InvalidAnnotation ") || !strings.Contains(text, "network.weft.dev/idel") ||
						strings.Contains(text, "did you mean network.weft.dev/idle?") != (of == "Service") {
						t.Errorf("%s, %s: event %q", of, when, text)
					}
				default:
					t.Errorf("%s, %s: no event", of, when)
				}
			}
			if len(recorder.Events) > 0 {
				t.Errorf("%s, %s: event %q", of, when, <-recorder.Events)
			}
		}
		handler.Create(t.Context(), event.CreateEvent{Object: object(typo), IsInInitialList: true}, nil)
		expect("at the start", 0)
		handler.Create(t.Context(), event.CreateEvent{Object: object(typo)}, nil)
		expect("created", 1)
		handler.Update(t.Context(), event.UpdateEvent{ObjectOld: object(typo), ObjectNew: object(typo)}, nil)
		expect("unchanged", 0)
		handler.Update(t.Context(), event.UpdateEvent{ObjectOld: object(nil), ObjectNew: object(typo)}, nil)
		expect("annotated", 1)
		handler.Update(t.Context(), event.UpdateEvent{ObjectOld: object(typo), ObjectNew: object(nil)}, nil)
		expect("corrected", 0)
	}
}
