// Package loadbalancer reconciles LoadBalancerPools. It gives addresses to Services of type LoadBalancer, records them
// in the Services' status, which is the only record, and chooses the node that answers for each address.
package loadbalancer

import (
	"context"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/controllers/kind"
	"github.com/weft-network/weft/pkg/floating/claim"
	"github.com/weft-network/weft/pkg/ipam/alloc"
	"github.com/weft-network/weft/pkg/loadbalancer"
	"github.com/weft-network/weft/pkg/trigger"
)

// Allocator reconciles Services of type LoadBalancer: it assigns and releases their addresses. It handles one Service at a
// time, because each choice depends on the others.
type Allocator struct {
	Client client.Client
	Events events.EventRecorder
	// Floating has the addresses of IPPools that are in use.
	Floating *claim.Claimer
	Triggers *trigger.Set
	// OnNetworks has the addresses in use of each Network, after RestoreNetworks has filled it.
	OnNetworks      *alloc.Set
	RestoreNetworks func(ctx context.Context) error
	// Planning means that no address waits for a probe, because a plan shows the result.
	Planning bool

	// written has the addresses that this process assigned, because the cache may lag.
	written map[types.NamespacedName]given
}

// given has the addresses of a Service.
type given struct {
	uid       types.UID
	addresses []netip.Addr
}

// Reconcile implements reconcile.Reconciler. All stands for the Services that wait for an address.
func (r *Allocator) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	if req.NamespacedName == All {
		for _, request := range r.waiting(ctx, nil) {
			r.Triggers.Enqueue(KindAddresses, request.NamespacedName)
		}
		return ctrl.Result{}, nil
	}
	var s corev1.Service
	if err := r.Client.Get(ctx, req.NamespacedName, &s); apierrors.IsNotFound(err) {
		delete(r.written, req.NamespacedName)
		return ctrl.Result{}, nil
	} else if err != nil {
		return ctrl.Result{}, err
	}
	had := meta.FindStatusCondition(s.Status.Conditions, networkv1alpha1.ServiceLoadBalancerReady)
	if !loadbalancer.Wants(&s) {
		if had == nil {
			return ctrl.Result{}, nil
		}
		return ctrl.Result{}, r.release(ctx, &s)
	}
	pools, err := r.pools(ctx)
	if err != nil {
		return ctrl.Result{}, err
	}
	namespace, err := kind.NamespaceLabels(ctx, r.Client, s.Namespace)
	if err != nil {
		return ctrl.Result{}, err
	}
	request, invalid := loadbalancer.ParseRequest(&s, namespace)
	if request.Class == "" && !loadbalancer.Served(request, pools.all) && !loadbalancer.Holds(r.current(&s), pools.all) {
		if had == nil {
			return ctrl.Result{}, nil // another controller may serve it
		}
		return ctrl.Result{}, r.release(ctx, &s)
	}
	if pools.undecided(request) {
		return ctrl.Result{}, nil // the pool's status enqueues the Service again
	}
	book, err := r.book(ctx, &s, r.written)
	if err != nil {
		return ctrl.Result{}, err
	}
	if invalid != nil {
		return ctrl.Result{}, r.write(ctx, &s, loadbalancer.Keep(request, r.current(&s), pools.all, book,
			networkv1alpha1.ReasonInvalidRequest, invalid.Error()))
	}
	if err := r.readProbes(ctx, pools.all, book); err != nil {
		return ctrl.Result{}, err
	}
	assigned := loadbalancer.Assign(request, r.current(&s), pools.all, book)
	if assigned.Waits {
		r.Triggers.Enqueue(kind.AddressProbe, kind.AllProbes)
	}
	return ctrl.Result{}, r.write(ctx, &s, assigned)
}

// current returns the addresses that a Service has, as far as this process has written them or the cache has them.
func (r *Allocator) current(s *corev1.Service) []netip.Addr {
	if w, ok := r.written[client.ObjectKeyFromObject(s)]; ok && w.uid == s.UID {
		return w.addresses
	}
	return loadbalancer.AddressesOf(s)
}

// poolList has the pools in the order in which they are tried.
type poolList struct {
	all     []loadbalancer.Pool
	pending map[string]bool // by name: the pool's present spec has no status yet
}

// undecided reports whether a pool that serves a request has no status yet.
func (l poolList) undecided(request loadbalancer.Request) bool {
	return slices.ContainsFunc(l.all, func(p loadbalancer.Pool) bool { return l.pending[p.Name] && p.Serves(request) })
}

// pools reads the pools, sorted by name.
func (r *Allocator) pools(ctx context.Context) (found poolList, err error) {
	var list networkv1alpha1.LoadBalancerPoolList
	if err := r.Client.List(ctx, &list); err != nil {
		return found, err
	}
	slices.SortFunc(list.Items, func(a, b networkv1alpha1.LoadBalancerPool) int { return strings.Compare(a.Name, b.Name) })
	found.pending = map[string]bool{}
	for i := range list.Items {
		p := &list.Items[i]
		read, err := loadbalancer.ParsePool(p)
		ready := meta.FindStatusCondition(p.Status.Conditions, networkv1alpha1.ConditionReady)
		switch {
		case err != nil:
			read.Refused = "LoadBalancerPool " + p.Name + ": " + err.Error()
		case ready == nil || ready.ObservedGeneration != p.Generation:
			found.pending[p.Name] = true
		case ready.Status != metav1.ConditionTrue:
			read.Refused = ready.Message
		}
		found.all = append(found.all, read)
	}
	return found, nil
}
