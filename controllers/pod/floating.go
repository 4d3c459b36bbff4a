package pod

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/controllers/kind"
	"github.com/weft-network/weft/pkg/addresses/floating"
	"github.com/weft-network/weft/pkg/addresses/floating/claim"
	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/ipam/alloc"
	"github.com/weft-network/weft/pkg/networks"
)

// given are the addresses that a pod has of an IPPool, by what becomes of them.
type given struct {
	// own are addresses of eth0, translated the addresses that the node's gateway router translates.
	own, translated []netip.Addr
}

// giveFloating gives a pod the addresses of the IPPool that it requests, if any.
func (r *Reconciler) giveFloating(ctx context.Context, p *request) (g given, err error) {
	_, had, runs := r.Addresses.Get(p.owner)
	if p.poolErr != nil {
		return r.held(p, had), fmt.Errorf("%w: %w", errRequest, p.poolErr)
	}
	if p.pool == "" {
		return r.held(p, had), nil
	}
	pool, _, _ := r.Floating.Book.Pool(p.pool)
	switch {
	case pool.Location == networkv1alpha1.LocationUnderlay:
		if p.lacksNetworks {
			return g, &floating.UnavailableError{Pool: pool.Name, Reason: "its addresses live on Network " + pool.Network +
				", which the pod does not request in its annotation " + networks.Annotation}
		}
		return r.held(p, had), nil // package podports gives the address
	case pool.Location == networkv1alpha1.LocationOverlay && runs && len(had.Floating) == 0:
		return r.held(p, had), nil // its interface has another address already
	}
	node := &corev1.Node{}
	if err := r.Client.Get(ctx, types.NamespacedName{Name: p.node}, node); client.IgnoreNotFound(err) != nil {
		return g, err
	}
	on := floating.Node{Name: p.node, Labels: node.Labels}
	if err := r.reclaim(ctx, p, on); err != nil {
		return g, err
	}
	claim := func() error {
		_, err := r.Floating.Claim(ctx, p.pod, on, had.Floating)
		if gone := r.goneWithPool(p); err == nil && gone != "" && !runs {
			return &floating.UnavailableError{Pool: gone, Reason: "there is no IPPool of this name"}
		}
		return err
	}
	if err = claim(); errors.As(err, new(*floating.UnavailableError)) {
		r.state.waiters.Wait(p.name, kind.Awaited{Pool: p.pool})
		err = claim()
	}
	return r.held(p, had), err
}

// goneWithPool returns the pool of an address of a pod that was deleted, or "". Without the pool it is not known where the address lives,
// so that a pod without an interface waits. The pool enqueues the pod.
func (r *Reconciler) goneWithPool(p *request) string {
	for _, f := range r.Floating.Book.Of(p.pod.UID) {
		if _, _, known := r.Floating.Book.Pool(f.Spec.Pool); !known {
			return f.Spec.Pool
		}
	}
	return ""
}

// unnamed returns the floating addresses at a pod's port whose FloatingIPs do not name the pod, because a person removed their holder.
func (r *Reconciler) unnamed(p *request) []netip.Addr {
	return slices.DeleteFunc(r.Addresses.Held(p.owner), func(a netip.Addr) bool {
		f := r.Floating.Book.Get(a)
		return f != nil && f.Spec.Holder != nil && f.Spec.Holder.PodUID == p.pod.UID
	})
}

// reclaim gives a running pod the addresses of its port again whose holder a person removed, unless somebody else has them.
func (r *Reconciler) reclaim(ctx context.Context, p *request, on floating.Node) error {
	lost := r.unnamed(p)
	if len(lost) == 0 {
		return nil
	}
	_, err := r.Floating.Claim(ctx, p.pod, on, r.Addresses.Held(p.owner))
	if errors.As(err, new(*floating.UnavailableError)) {
		r.Events.Eventf(p.pod, nil, corev1.EventTypeWarning, "FloatingIPLost", "AllocateAddress",
			"%s: the holder of the FloatingIP was removed: %v", claim.Annotation(lost), err)
		return nil
	}
	if err == nil {
		r.Events.Eventf(p.pod, nil, corev1.EventTypeWarning, "FloatingIPRestored", "AllocateAddress",
			"%s: the holder of the FloatingIP was removed while the pod runs, and is restored; to release the address, delete the pod",
			claim.Annotation(lost))
	}
	return err
}

// held returns the addresses that the pod has of IPPools. What its interface has stays so, also when the pool was
// deleted or recreated elsewhere.
func (r *Reconciler) held(p *request, had alloc.Assignment) (g given) {
	for _, f := range r.Floating.Book.Of(p.pod.UID) {
		address, err := netip.ParseAddr(string(f.Spec.Address))
		if err != nil {
			continue // the API server refuses such a FloatingIP
		}
		pool, _, ok := r.Floating.Book.Pool(f.Spec.Pool)
		switch {
		case slices.Contains(had.Floating, address), ok && pool.Location == networkv1alpha1.LocationOverlay && len(had.Addresses) == 0:
			g.own = append(g.own, address)
		case ok && pool.Location == networkv1alpha1.LocationNAT:
			g.translated = append(g.translated, address)
		}
	}
	return g
}

// hold holds the addresses that the gateway router translates to a pod, before its port has them. It leaves out an address
// that the port of another pod still has, for which the pod waits.
func (r *Reconciler) hold(p *request, translated []netip.Addr) (free []netip.Addr) {
	others := r.Addresses.Hold(p.owner, translated)
	for _, address := range others {
		r.state.waiters.Wait(p.name, kind.Awaited{Port: address})
	}
	others = r.Addresses.Hold(p.owner, others)
	return slices.DeleteFunc(slices.Clone(translated), func(a netip.Addr) bool { return slices.Contains(others, a) })
}

// holdOnly ends the holds of addresses that a pod's port does not have any more, and enqueues the pods that wait for them.
func (r *Reconciler) holdOnly(owner alloc.Owner, has given) {
	for _, address := range r.Addresses.HoldOnly(owner, slices.Concat(has.own, has.translated)) {
		r.freedPort(address)
	}
}

// freedPort enqueues what waits for a floating address that no port has any more.
func (r *Reconciler) freedPort(address netip.Addr) {
	r.wake(kind.Awaited{Port: address})
	r.PortsFreed.Publish(address)
}

// gateway returns the way by which floating addresses of a node's pods leave.
func (r *Reconciler) gateway(ctx context.Context, nn *networkv1alpha1.NodeNetwork) (facts.Gateway, error) {
	var node corev1.Node
	if err := r.Client.Get(ctx, types.NamespacedName{Name: nn.Name}, &node); err != nil {
		return facts.Gateway{}, client.IgnoreNotFound(err)
	}
	gateway, err := facts.ParseGateway(nn, &node)
	if err != nil {
		return facts.Gateway{}, nil // the node's event says so
	}
	return gateway, nil
}

// leavingBy returns a request for each pod with addresses of IPPools, or with routers of its own, on a node whose way out changed.
func (r *Reconciler) leavingBy(ctx context.Context, node client.Object) []reconcile.Request {
	return kind.RequestsIf(ctx, r.Client, &corev1.PodList{}, func(pod *corev1.Pod) bool {
		_, wanted, _ := claim.Request(pod)
		return wanted || r.Floating.Book.Has(pod.UID) || r.isRouted(ctx, pod)
	}, client.MatchingFields{byNode: node.GetName()})
}

// isRouted reports whether a pod has routers of its own. An unreadable selection counts as such, because its retry reads it again.
func (r *Reconciler) isRouted(ctx context.Context, pod *corev1.Pod) bool {
	if _, routes := r.state.seen(); !routes {
		return false
	}
	by, err := r.selectedBy(ctx, pod)
	return err != nil || len(by.nextHops) > 0
}

// wayOutChanged passes the updates that change how floating addresses leave a node.
func wayOutChanged(before, after *networkv1alpha1.NodeNetwork) bool {
	return !equality.Semantic.DeepEqual(before.Status.Gateway, after.Status.Gateway) ||
		!equality.Semantic.DeepEqual(before.Spec.Gateway, after.Spec.Gateway) ||
		!slices.Equal(before.Spec.JoinAddresses, after.Spec.JoinAddresses) ||
		!slices.Equal(before.Spec.ClusterSubnets, after.Spec.ClusterSubnets)
}
