// Package floatinggate reconciles pods with the scheduling gate network.weft.dev/floating-ip, for clusters whose
// kube-scheduler has no extender:
//
//	gated pod ──▶ a segment ──▶ FloatingIPs ──▶ node affinity of the segment, no gate ──▶ kube-scheduler
//
// The FloatingIPs are written before the gate is removed, so that the pod has its addresses before it has a node. A pod
// whose pool has no address stays gated. It waits for an address, a node, or a change of its pool.
package floatinggate

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/weft-network/weft/controllers/kind"
	"github.com/weft-network/weft/pkg/addresses/floating/placement"
	"github.com/weft-network/weft/pkg/process/trigger"
)

// Kind is the name of the kind, which has no units.
const Kind = "floatinggate"

// workers is how many pods are reconciled concurrently. Each waits for its writes.
const workers = 16

// Kinds returns the kind of gated pods.
func Kinds(env *kind.Env) []*kind.Kind {
	r := &Reconciler{Client: env.Client, Floating: env.Floating, Events: env.Events, Triggers: env.Triggers}
	env.FloatingFreed.Subscribe(r.freed)
	notDeleted := predicate.Funcs{UpdateFunc: trigger.Update(nodeChanged), DeleteFunc: func(event.DeleteEvent) bool { return false }}
	return []*kind.Kind{{
		Name: Kind, Reconciler: r, Workers: workers, SkipInPlan: true,
		Watches: []kind.Watch{
			kind.Of(&corev1.Pod{}, predicate.NewPredicateFuncs(concerns)),
			kind.Map(&corev1.Node{}, r.all, notDeleted),
			kind.Map(&corev1.Namespace{}, r.in, trigger.OnlyChanged(trigger.LabelsChanged)).MetadataOnly(),
		},
	}}
}

// concerns passes gated pods, and pods that were gated and whose condition still says what they lacked.
func concerns(o client.Object) bool {
	pod, ok := o.(*corev1.Pod)
	return ok && (placement.IsGated(pod) || isExplained(pod))
}

// nodeChanged passes updates that change which pods can go to a node.
func nodeChanged(before, after *corev1.Node) bool {
	return trigger.LabelsChanged(before, after) || before.Spec.Unschedulable != after.Spec.Unschedulable ||
		!equality.Semantic.DeepEqual(before.Spec.Taints, after.Spec.Taints)
}

// freed enqueues the pods that wait for an address of a pool.
func (r *Reconciler) freed(pool string) {
	for _, pod := range r.waiting.of(func(_ types.NamespacedName, of string) bool { return of == pool }) {
		r.Triggers.Enqueue(Kind, pod)
	}
}

// all returns a request for each waiting pod.
func (r *Reconciler) all(context.Context, client.Object) []reconcile.Request {
	return requests(r.waiting.of(func(types.NamespacedName, string) bool { return true }))
}

// in returns a request for each waiting pod of a namespace.
func (r *Reconciler) in(_ context.Context, namespace client.Object) []reconcile.Request {
	of := func(pod types.NamespacedName, _ string) bool { return pod.Namespace == namespace.GetName() }
	return requests(r.waiting.of(of))
}

func requests(pods []types.NamespacedName) (all []reconcile.Request) {
	for _, pod := range pods {
		all = append(all, reconcile.Request{NamespacedName: pod})
	}
	return all
}
