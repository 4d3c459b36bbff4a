// Package loadbalancerpool reconciles LoadBalancerPools. It gives addresses to Services of type LoadBalancer, records them
// in the Services' status, which is the only record, and chooses the node that answers for each address.
package loadbalancerpool

import (
	"cmp"
	"context"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"sync"

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
	"github.com/weft-network/weft/pkg/addresses/floating/claim"
	"github.com/weft-network/weft/pkg/addresses/lbpool"
	"github.com/weft-network/weft/pkg/ipam/alloc"
	"github.com/weft-network/weft/pkg/process/trigger"
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
	// writes counts the written statuses.
	writes int
}

// maxTogether is how many statuses are written for Services that lack an address before those are read again, so that a new one of another
// namespace does not wait for all of one.
const maxTogether = 32

// given has the addresses of a Service.
type given struct {
	uid       types.UID
	addresses []netip.Addr
}

// Reconcile implements reconcile.Reconciler. All stands for the Services that wait for an address.
func (r *Allocator) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	if req.NamespacedName == All {
		return r.reconcileLacking(ctx)
	}
	var s corev1.Service
	if err := r.Client.Get(ctx, req.NamespacedName, &s); apierrors.IsNotFound(err) {
		delete(r.written, req.NamespacedName)
		return ctrl.Result{}, nil
	} else if err != nil {
		return ctrl.Result{}, err
	}
	pools, err := r.pools(ctx)
	if err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{}, r.decide(ctx, &s, pools, r.bookOf(ctx, pools))
}

// reconcileLacking decides about all Services that lack an address, with one book.
func (r *Allocator) reconcileLacking(ctx context.Context) (result ctrl.Result, err error) {
	lacking, err := r.lacking(ctx)
	if err != nil || len(lacking) == 0 {
		return result, err
	}
	pools, err := r.pools(ctx)
	if err != nil {
		return result, err
	}
	book, errs, begun := r.bookOf(ctx, pools), []error(nil), r.writes
	for _, s := range lacking {
		if r.writes-begun == maxTogether {
			result.RequeueAfter = trigger.FirstRetry // when the cache has them
			break
		}
		errs = append(errs, r.decide(ctx, s, pools, book))
	}
	return result, errors.Join(errs...)
}

// lacking lists the Services that lack an address that they request, and former ones of type LoadBalancer. The first of each namespace
// comes before the second of any, the oldest first, so that no namespace lets another wait.
func (r *Allocator) lacking(ctx context.Context) (all []*corev1.Service, err error) {
	var list corev1.ServiceList
	if err := r.Client.List(ctx, &list); err != nil {
		return nil, err
	}
	for i := range list.Items {
		if s := &list.Items[i]; (lbpool.Wants(s) || lbpool.IsOurs(s)) && lacks(s) {
			all = append(all, s)
		}
	}
	slices.SortFunc(all, byAge)
	before, turn := map[string]int{}, map[*corev1.Service]int{}
	for _, s := range all {
		turn[s] = before[s.Namespace]
		before[s.Namespace]++
	}
	slices.SortStableFunc(all, func(a, b *corev1.Service) int { return cmp.Compare(turn[a], turn[b]) })
	return all, nil
}

// byAge orders Services: the oldest first.
func byAge(a, b *corev1.Service) int {
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

// bookOf returns the book with what the nodes found out, which is read at the first call.
func (r *Allocator) bookOf(ctx context.Context, pools poolList) func() (lbpool.Book, error) {
	return sync.OnceValues(func() (lbpool.Book, error) {
		book, err := r.book(ctx, r.written)
		if err == nil {
			err = r.readProbes(ctx, pools.all, book)
		}
		return book, err
	})
}

// decide gives a Service its addresses, or takes them.
func (r *Allocator) decide(ctx context.Context, s *corev1.Service, pools poolList, bookOf func() (lbpool.Book, error)) error {
	isOurs := lbpool.IsOurs(s)
	if !lbpool.Wants(s) {
		if isOurs {
			return r.release(ctx, s)
		}
		return nil
	}
	namespace, err := kind.NamespaceLabels(ctx, r.Client, s.Namespace)
	if err != nil {
		return err
	}
	request, invalid := lbpool.ParseRequest(s, namespace)
	current := r.current(s)
	if request.Class == "" && !lbpool.Served(request, pools.all) && !lbpool.Holds(current, pools.all) {
		if isOurs {
			return r.release(ctx, s)
		}
		return nil // another controller may serve it
	}
	if pools.undecided(request) {
		return nil // the pool's status enqueues the Service again
	}
	book, err := bookOf()
	if err != nil {
		return err
	}
	if invalid != nil {
		return r.write(ctx, s, lbpool.Keep(request, current, pools.all, book, networkv1alpha1.ReasonInvalidRequest, invalid.Error()))
	}
	assigned := lbpool.Assign(request, current, pools.all, book)
	if assigned.Waits {
		r.Triggers.Enqueue(kind.AddressProbe, kind.AllProbes)
	}
	if err := r.write(ctx, s, assigned); err != nil {
		return err
	}
	for _, a := range assigned.Addresses {
		if !slices.Contains(current, a) {
			book.Add(a, request)
		}
	}
	return nil
}

// current returns the addresses that a Service has, as far as this process has written them or the cache has them.
func (r *Allocator) current(s *corev1.Service) []netip.Addr {
	if w, ok := r.written[client.ObjectKeyFromObject(s)]; ok && w.uid == s.UID {
		return w.addresses
	}
	return lbpool.AddressesOf(s)
}

// poolList has the pools in the order in which they are tried.
type poolList struct {
	all     []lbpool.Pool
	pending map[string]bool // by name: the pool's present spec has no status yet
}

// undecided reports whether a pool that serves a request has no status yet.
func (l poolList) undecided(request lbpool.Request) bool {
	return slices.ContainsFunc(l.all, func(p lbpool.Pool) bool { return l.pending[p.Name] && p.Serves(request) })
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
		read, err := lbpool.ParsePool(p)
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
