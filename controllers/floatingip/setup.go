// Package floatingip reconciles IPPools and FloatingIPs. Package pod gives pods their addresses, with the Claimer that
// both share; this package decides when an address becomes free.
package floatingip

import (
	"context"
	"net/netip"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/controllers/kind"
	"github.com/weft-network/weft/pkg/addresses/balance"
	"github.com/weft-network/weft/pkg/addresses/floating"
	"github.com/weft-network/weft/pkg/addresses/floating/claim"
	"github.com/weft-network/weft/pkg/process/trigger"
)

// Names of the kinds, which have no units of their own: addresses are rows of their pods' units.
const (
	KindIPPool     = "ippool"
	KindFloatingIP = "floatingip"
)

// workers is how many FloatingIPs are reconciled concurrently. Each waits for its write.
const workers = 16

// atPorts returns a function for Pools.AtPorts. Without the reconciler of pods, no port has an address.
func atPorts(env *kind.Env) func(context.Context, string) ([]netip.Addr, error) {
	return func(ctx context.Context, network string) ([]netip.Addr, error) {
		restore, addresses := env.Restore, env.Addresses
		if network != "" {
			restore, addresses = env.RestoreNetworks, env.NetworkAddresses.Of(network)
		}
		if restore == nil {
			return nil, nil
		}
		if err := restore(ctx); err != nil {
			return nil, err
		}
		return addresses.HeldAddresses(), nil
	}
}

// Kinds returns the kinds of IPPools and FloatingIPs.
func Kinds(env *kind.Env) []*kind.Kind {
	r := &Reconciler{Client: env.Client, Floating: env.Floating, Triggers: env.Triggers, Freed: &env.FloatingFreed,
		CountDelay: env.Settings.CountDelay}
	pools := &Pools{Client: env.Client, Floating: env.Floating, Events: env.Events, Triggers: env.Triggers,
		Freed: &env.FloatingFreed, AtPorts: atPorts(env), CountDelay: env.Settings.CountDelay,
		workloads: func() error { return nil }}
	env.PortsFreed.Subscribe(pools.left)
	return []*kind.Kind{{
		Name: KindIPPool, Reconciler: pools,
		Owner: func() client.Object { return &networkv1alpha1.IPPool{} },
		Watches: append([]kind.Watch{
			kind.Of(&networkv1alpha1.IPPool{}, trigger.SpecChanged()),
			kind.On(&networkv1alpha1.IPPool{}, handler.Funcs{UpdateFunc: pools.reported}),
			kind.Map(&networkv1alpha1.IPPool{}, pools.others, predicate.Or(trigger.SpecChanged(), balance.InForceChanged())),
			kind.Map(&networkv1alpha1.ClusterNetwork{}, pools.all, kind.NetworksChanged()),
			kind.Map(&networkv1alpha1.NodeNetwork{}, pools.all, predicate.And(trigger.SpecChanged(), trigger.Changed(subnetsChanged))),
			kind.Map(&networkv1alpha1.Network{}, pools.all, trigger.SpecChanged()),
			kind.Map(&networkv1alpha1.EgressIP{}, pools.all, kind.EgressAddressesChanged()),
			kind.Map(&networkv1alpha1.LoadBalancerPool{}, pools.all, kind.BalancersChanged()),
			kind.Map(&corev1.Service{}, pools.all, externalChanged()),
		}, kind.SegmentHostWatches(pools.all)...),
	}, {
		Name: KindFloatingIP, Reconciler: r, Workers: workers, SkipInPlan: true,
		Watches: []kind.Watch{
			kind.On(&networkv1alpha1.FloatingIP{}, r.observing()),
			kind.Map(&corev1.Pod{}, r.ofPod, predicate.Funcs{
				CreateFunc: func(event.CreateEvent) bool { return false }, UpdateFunc: trigger.Update(ended)}),
		},
		Built: func(mgr ctrl.Manager, c controller.Controller) error {
			r.watches = r.watcherOf(mgr, c)
			pools.workloads = r.watchWorkloads
			return nil
		},
	}}
}

// observing records each FloatingIP in the book, and enqueues it.
func (r *Reconciler) observing() handler.Funcs {
	type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
	observe := func(o client.Object, q queue) {
		if f, ok := o.(*networkv1alpha1.FloatingIP); ok {
			r.Floating.Book.Observe(f)
			q.Add(reconcile.Request{NamespacedName: client.ObjectKeyFromObject(f)})
		}
	}
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, q queue) { observe(e.Object, q) },
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q queue) {
			observe(e.ObjectNew, q)
			r.lost(e.ObjectOld, e.ObjectNew)
		},
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, _ queue) {
			if f, ok := e.Object.(*networkv1alpha1.FloatingIP); ok {
				r.Floating.Book.Forget(f)
				r.count(ctx, f.Spec.Pool)
				r.lost(f, nil)
				r.Freed.Publish(f.Spec.Pool)
			}
		},
	}
}

// lost enqueues the pod whose address a person released.
func (r *Reconciler) lost(before, after client.Object) {
	had, ok := before.(*networkv1alpha1.FloatingIP)
	if !ok || had.Spec.Holder == nil || had.Spec.Holder.PodUID == "" {
		return
	}
	if now, ok := after.(*networkv1alpha1.FloatingIP); ok && now.Spec.Holder != nil && now.Spec.Holder.PodUID == had.Spec.Holder.PodUID {
		return
	}
	r.enqueuePod(had.Spec.Holder)
}

// reported enqueues a pool whose status was written, perhaps by the late write of an earlier leader. The events
// of this process's own writes arrive here too. The delay keeps each write from causing another one.
func (r *Pools) reported(_ context.Context, e event.UpdateEvent, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) {
	if trigger.Update(poolReported)(e) {
		queue.AddAfter(reconcile.Request{NamespacedName: client.ObjectKeyFromObject(e.ObjectNew)}, r.CountDelay)
	}
}

func poolReported(before, after *networkv1alpha1.IPPool) bool {
	return !equality.Semantic.DeepEqual(before.Status, after.Status)
}

// ended passes the updates with which a pod ends.
func ended(before, after *corev1.Pod) bool {
	return before.Status.Phase != after.Status.Phase
}

// ofPod returns a request for each address of a pod, and for each address that is kept for it: a pod without a workload
// counts as its own workload.
func (r *Reconciler) ofPod(_ context.Context, o client.Object) []reconcile.Request {
	kept := r.Floating.Book.OfWorkload(floating.Workload{APIVersion: "v1", Kind: "Pod", Namespace: o.GetNamespace(), Name: o.GetName()})
	return requests(append(r.Floating.Book.Of(o.GetUID()), kept...))
}

func requests(of []*networkv1alpha1.FloatingIP) (all []reconcile.Request) {
	for _, f := range of {
		all = append(all, reconcile.Request{NamespacedName: types.NamespacedName{Name: f.Name}})
	}
	return all
}

// watchWorkloads watches the kinds of workloads that every cluster has.
func (r *Reconciler) watchWorkloads() error {
	for _, w := range []struct {
		object        client.Object
		version, kind string
	}{{&appsv1.Deployment{}, "apps/v1", "Deployment"}, {&appsv1.StatefulSet{}, "apps/v1", "StatefulSet"},
		{&appsv1.DaemonSet{}, "apps/v1", "DaemonSet"}, {&batchv1.Job{}, "batch/v1", "Job"}, {&batchv1.CronJob{}, "batch/v1", "CronJob"}} {
		passes := predicate.Or[client.Object](trigger.SpecChanged(), trigger.OnlyChanged(jobEnded))
		if err := r.watches.watch(w.object, w.version, w.kind, passes); err != nil {
			return err
		}
	}
	return nil
}

// jobEnded passes the updates with which a Job completes or fails.
func jobEnded(before, after client.Object) bool {
	was, ok := before.(*batchv1.Job)
	is, ok2 := after.(*batchv1.Job)
	return ok && ok2 && claim.IsFinished(was) != claim.IsFinished(is)
}

// ofWorkload returns requests for the addresses of a workload that was changed or deleted, and wakes its pods that
// wait for an address.
func (r *Reconciler) ofWorkload(apiVersion, kind string) handler.MapFunc {
	return func(_ context.Context, o client.Object) []reconcile.Request {
		of := floating.Workload{APIVersion: apiVersion, Kind: kind, Namespace: o.GetNamespace(), Name: o.GetName()}
		found := r.Floating.Book.OfWorkload(of)
		for _, f := range found {
			r.Freed.Publish(f.Spec.Pool)
		}
		return requests(found)
	}
}

// all returns a request for each IPPool.
func (r *Pools) all(ctx context.Context, _ client.Object) []reconcile.Request { return r.list(ctx, "") }

// others returns a request for each IPPool but the changed pool.
func (r *Pools) others(ctx context.Context, o client.Object) []reconcile.Request {
	return r.list(ctx, o.GetName())
}

func (r *Pools) list(ctx context.Context, except string) []reconcile.Request {
	others := func(pool *networkv1alpha1.IPPool) bool { return pool.Name != except }
	return kind.RequestsIf(ctx, r.Client, &networkv1alpha1.IPPoolList{}, others)
}

func subnetsChanged(before, after *networkv1alpha1.NodeNetwork) bool {
	return !equality.Semantic.DeepEqual(before.Spec.PodSubnets, after.Spec.PodSubnets)
}
