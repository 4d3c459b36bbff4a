// Package annotation records events about annotations of Weft's domains that nobody reads: unknown keys, keys on an object of another
// kind, and values that nobody understands. Conditions and other events report the annotations that another reconciler reads.
package annotation

import (
	"context"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/controllers/kind"
	"github.com/weft-network/weft/pkg/annotations"
	"github.com/weft-network/weft/pkg/health"
)

// Kind is the name of the kind, which has no units.
const Kind = "annotation"

// Kinds returns the kind of annotated objects. Its watches record the events, and enqueue nothing.
func Kinds(env *kind.Env) []*kind.Kind {
	on := func(object client.Object, of string) kind.Watch { return kind.On(object, recording(env.Events, of)) } // of names object's kind
	return []*kind.Kind{{
		Name: Kind, SkipInPlan: true, Object: "annotated object",
		Reconciler: reconcile.Func(func(context.Context, reconcile.Request) (ctrl.Result, error) { return ctrl.Result{}, nil }),
		Watches: []kind.Watch{
			on(&corev1.Pod{}, "Pod"), on(&corev1.Service{}, "Service"), on(&corev1.Node{}, "Node"),
			on(&corev1.Namespace{}, "Namespace").MetadataOnly(),
		},
	}}
}

// recording returns a handler that records an event on an object whose annotations nobody reads: when it is created, and when that
// changes.
func recording(recorder events.EventRecorder, of string) handler.Funcs {
	type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
	record := func(o client.Object, found []annotations.Finding) {
		found = slices.DeleteFunc(found, func(f annotations.Finding) bool { return f.Reported })
		if len(found) == 0 || o.GetDeletionTimestamp() != nil {
			return
		}
		texts := make([]string, 0, len(found))
		for _, f := range found {
			texts = append(texts, f.Message)
		}
		recorder.Eventf(o, nil, corev1.EventTypeWarning, networkv1alpha1.ReasonInvalidAnnotation, "ReadAnnotations", "%s",
			health.Cut(strings.Join(texts, "; ")))
	}
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, _ queue) {
			if !e.IsInInitialList { // a restart repeats no events
				record(e.Object, annotations.Of(of, e.Object.GetAnnotations()))
			}
		},
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, _ queue) {
			found := annotations.Of(of, e.ObjectNew.GetAnnotations())
			if !slices.Equal(found, annotations.Of(of, e.ObjectOld.GetAnnotations())) {
				record(e.ObjectNew, found)
			}
		},
	}
}
