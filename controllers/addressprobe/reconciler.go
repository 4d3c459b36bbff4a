// Package addressprobe requests nodes to probe the addresses that EgressIPs and Services wait for. It writes the requests into the
// NodeNetworks, where the agents read them.
package addressprobe

import (
	"context"
	"errors"
	"net/netip"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/controllers/kind"
	"github.com/weft-network/weft/pkg/addresses/lbpool"
	"github.com/weft-network/weft/pkg/process/trigger"
)

// Reconciler computes the requests of all nodes at once, because each node may probe each address.
type Reconciler struct {
	Client   client.Client
	Triggers *trigger.Set
	// OfServices is kind.Env.ServiceProbes.
	OfServices func(ctx context.Context) ([]netip.Addr, error)
	Now        func() time.Time
}

// Kinds returns the kind of requests.
func Kinds(env *kind.Env) []*kind.Kind {
	r := &Reconciler{Client: env.Client, Triggers: env.Triggers, Now: time.Now,
		OfServices: func(ctx context.Context) ([]netip.Addr, error) { return env.ServiceProbes(ctx) }}
	return []*kind.Kind{{
		Name: kind.AddressProbe, Reconciler: r, SkipInPlan: true, // it has no units
		Watches: append([]kind.Watch{
			kind.Map(&networkv1alpha1.EgressIP{}, always, predicate.Funcs{CreateFunc: probes, UpdateFunc: trigger.Update(probingChanged)}),
			kind.Map(&corev1.Service{}, always, predicate.Funcs{CreateFunc: requests,
				UpdateFunc: trigger.Update(requestChanged), DeleteFunc: requested}),
			kind.Map(&networkv1alpha1.LoadBalancerPool{}, always, trigger.SpecChanged()),
			kind.Map(&networkv1alpha1.NodeNetwork{}, always, predicate.Funcs{CreateFunc: hasRequests, UpdateFunc: trigger.Update(requestsChanged)}),
		}, kind.ProbeWatches(always)...),
	}}
}

// always returns the request for all nodes.
func always(context.Context, client.Object) []reconcile.Request {
	return []reconcile.Request{{NamespacedName: kind.AllProbes}}
}

// hasRequests passes the NodeNetworks of a start whose requests may have expired or may not be wanted any more.
func hasRequests(e event.CreateEvent) bool {
	nn, ok := e.Object.(*networkv1alpha1.NodeNetwork)
	return !ok || len(nn.Spec.ProbeAddresses) > 0
}

// requestsChanged passes the updates of a NodeNetwork's requests, which nobody but this kind may write.
func requestsChanged(before, after *networkv1alpha1.NodeNetwork) bool {
	return !equality.Semantic.DeepEqual(before.Spec.ProbeAddresses, after.Spec.ProbeAddresses)
}

func probes(e event.CreateEvent) bool {
	egressIP, ok := e.Object.(*networkv1alpha1.EgressIP)
	return !ok || len(egressIP.Status.Probing) > 0
}

func probingChanged(before, after *networkv1alpha1.EgressIP) bool {
	return !equality.Semantic.DeepEqual(before.Status.Probing, after.Status.Probing)
}

func requests(e event.CreateEvent) bool {
	s, ok := e.Object.(*corev1.Service)
	return !ok || lbpool.Wants(s)
}

func requested(e event.DeleteEvent) bool {
	s, ok := e.Object.(*corev1.Service)
	return !ok || e.DeleteStateUnknown || lbpool.Wants(s) || lbpool.IsOurs(s)
}

func requestChanged(before, after *corev1.Service) bool {
	return (lbpool.Wants(before) || lbpool.Wants(after)) &&
		(!equality.Semantic.DeepEqual(before.Spec, after.Spec) || !equality.Semantic.DeepEqual(before.Status, after.Status) ||
			!equality.Semantic.DeepEqual(before.Annotations, after.Annotations) ||
			!equality.Semantic.DeepEqual(before.Labels, after.Labels) ||
			before.DeletionTimestamp.IsZero() != after.DeletionTimestamp.IsZero())
}

// Reconcile implements reconcile.Reconciler. A failed write does not keep the others from being written.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	nodes, err := kind.Probes(ctx, r.Client)
	if err != nil {
		return ctrl.Result{}, err
	}
	wanted, err := r.wanted(ctx)
	if err != nil {
		return ctrl.Result{}, err
	}
	of, again := nodes.Requests(wanted, r.Now())
	var networks networkv1alpha1.NodeNetworkList
	if err := r.Client.List(ctx, &networks); err != nil {
		return ctrl.Result{}, err
	}
	var errs []error
	for i := range networks.Items {
		nn := &networks.Items[i]
		errs = append(errs, r.write(ctx, nn, of[nn.Name]))
	}
	if again > 0 {
		r.Triggers.EnqueueAfter(kind.AddressProbe, req.NamespacedName, again)
	}
	return ctrl.Result{}, errors.Join(errs...)
}

// wanted lists the addresses that EgressIPs and Services wait for.
func (r *Reconciler) wanted(ctx context.Context) ([]netip.Addr, error) {
	wanted, err := r.OfServices(ctx)
	if err != nil {
		return nil, err
	}
	var egressIPs networkv1alpha1.EgressIPList
	if err := r.Client.List(ctx, &egressIPs); err != nil {
		return nil, err
	}
	for i := range egressIPs.Items {
		for _, text := range egressIPs.Items[i].Status.Probing {
			if a, err := text.Addr(); err == nil { // only the operator writes the status
				wanted = append(wanted, a)
			}
		}
	}
	return wanted, nil
}

// write makes the requests of a node equal to want.
func (r *Reconciler) write(ctx context.Context, nn *networkv1alpha1.NodeNetwork, want []networkv1alpha1.AddressProbe) error {
	if !nn.DeletionTimestamp.IsZero() || equality.Semantic.DeepEqual(nn.Spec.ProbeAddresses, want) {
		return nil
	}
	changed := nn.DeepCopy()
	changed.Spec.ProbeAddresses = want
	return client.IgnoreNotFound(kind.Write(ctx, r.Client, nn, changed))
}
