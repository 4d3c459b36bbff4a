package kind

import (
	"context"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/process/trigger"
)

// SelectsNoPod ends the message of a condition of an object whose selectors select no pod of the pod network.
const SelectsNoPod = "; the selectors select no pod"

// Selects compares the labels of a pod and of its namespace with an object's selectors. An error means that they are unreadable.
type Selects func(namespace, pod labels.Set) (bool, error)

// SelectsAny reports whether selectors select a pod that needs an interface of its own, among the pods of the options. It reads the cache.
// The caller may change neither the namespaces nor the pods.
func SelectsAny(ctx context.Context, c client.Reader, selects Selects, of ...client.ListOption) (bool, error) {
	var pods corev1.PodList
	if err := c.List(ctx, &pods, of...); err != nil {
		return false, err
	}
	namespaces := map[string]labels.Set{}
	for i := range pods.Items {
		pod := &pods.Items[i]
		if !facts.WantsPort(pod) {
			continue
		}
		in, known := namespaces[pod.Namespace]
		if !known {
			var err error
			if in, err = NamespaceLabels(ctx, c, pod.Namespace); err != nil {
				return false, err
			}
			namespaces[pod.Namespace] = in
		}
		if is, err := selects(in, pod.Labels); err == nil && is {
			return true, nil
		}
	}
	return false, nil
}

// Selector is an object with selectors, and whether its status says that they select no pod.
type Selector struct {
	Request reconcile.Request
	Selects Selects
	None    bool
}

// SelectionWatches reconciles objects for which it changes whether their selectors select any pod. list returns the selectors that may
// concern a pod, or the pods of a namespace. after enqueues an object
// that may have lost its last pod, once for the pods of a while.
func SelectionWatches(c client.Reader, list func(context.Context, client.Object) []Selector,
	after func(reconcile.Request)) []Watch {
	selecting := func(ctx context.Context, o client.Object, none bool) (found []Selector) {
		in, err := NamespaceLabels(ctx, c, o.GetNamespace())
		if err != nil {
			return nil // the cache returns no errors once it is in sync
		}
		for _, s := range list(ctx, o) {
			if s.None != none {
				continue
			}
			if is, err := s.Selects(in, o.GetLabels()); err == nil && is {
				found = append(found, s)
			}
		}
		return found
	}
	requests := func(of []Selector) (requests []reconcile.Request) {
		for _, s := range of {
			requests = append(requests, s.Request)
		}
		return requests
	}
	var gained handler.MapFunc = func(ctx context.Context, o client.Object) []reconcile.Request {
		if pod, ok := o.(*corev1.Pod); !ok || !facts.WantsPort(pod) {
			return nil
		}
		return requests(selecting(ctx, o, true))
	}
	var lost handler.MapFunc = func(ctx context.Context, o client.Object) []reconcile.Request {
		for _, s := range selecting(ctx, o, false) {
			after(s.Request)
		}
		return nil
	}
	var relabelled handler.MapFunc = func(ctx context.Context, o client.Object) []reconcile.Request { return requests(list(ctx, o)) }
	var created handler.MapFunc = func(ctx context.Context, o client.Object) []reconcile.Request {
		return requests(slices.DeleteFunc(list(ctx, o), func(s Selector) bool { return !s.None }))
	}
	never := func(event.CreateEvent) bool { return false }
	return []Watch{
		Map(&corev1.Pod{}, gained, predicate.Funcs{
			UpdateFunc: trigger.Update(selectionChanged), DeleteFunc: func(event.DeleteEvent) bool { return false }}),
		Map(&corev1.Pod{}, lost, predicate.Funcs{UpdateFunc: trigger.Update(selectionChanged), CreateFunc: never}),
		Map(&corev1.Namespace{}, relabelled, predicate.Funcs{UpdateFunc: trigger.Update(trigger.LabelsChanged), CreateFunc: never,
			DeleteFunc: func(event.DeleteEvent) bool { return false }}).MetadataOnly(),
		// A pod may be cached before its namespace.
		Map(&corev1.Namespace{}, created, predicate.Funcs{UpdateFunc: func(event.UpdateEvent) bool { return false },
			DeleteFunc: func(event.DeleteEvent) bool { return false }}).MetadataOnly(),
	}
}

// selectionChanged passes the updates of a pod that may change which selectors select it.
func selectionChanged(before, after *corev1.Pod) bool {
	return facts.WantsPort(before) != facts.WantsPort(after) || !maps.Equal(before.Labels, after.Labels)
}

// SaysNone reports whether a condition says that the object selects no pod.
func SaysNone(c *metav1.Condition) bool {
	return c != nil && strings.HasSuffix(c.Message, SelectsNoPod)
}
