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
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/floating"
	"github.com/weft-network/weft/pkg/floating/claim"
	"github.com/weft-network/weft/pkg/ipam/alloc"
	"github.com/weft-network/weft/pkg/networks"
	"github.com/weft-network/weft/pkg/ovn/nbdb"
	"github.com/weft-network/weft/pkg/topology"
)

// given are the addresses that a pod has of an IPPool, by what becomes of them.
type given struct {
	// own are addresses of eth0, translated the addresses that the node's gateway router translates.
	own, translated []netip.Addr
}

// give gives a pod the addresses of the IPPool that it requests, if any.
func (r *Reconciler) give(ctx context.Context, pod *corev1.Pod) (g given, err error) {
	request, ok, err := claim.Request(pod)
	_, had, runs := r.Addresses.Get(ownerOf(pod))
	if err != nil {
		return r.held(pod, had), fmt.Errorf("%w: %w", errRequest, err)
	}
	if !ok {
		return r.held(pod, had), nil
	}
	pool, _, _ := r.Floating.Book.Pool(request.Pool)
	switch {
	case pool.Location == networkv1alpha1.LocationUnderlay:
		// Package podports reports an annotation that cannot be read.
		if requests, err := networks.Parse(pod.Annotations, pod.Namespace); err == nil && len(requests) == 0 {
			return g, &floating.UnavailableError{Pool: pool.Name, Reason: "its addresses live on Network " + pool.Network +
				", which the pod does not request in its annotation " + networks.Annotation}
		}
		return r.held(pod, had), nil // package podports gives the address
	case pool.Location == networkv1alpha1.LocationOverlay && runs && len(had.Floating) == 0:
		return r.held(pod, had), nil // its interface has another address already
	}
	node := &corev1.Node{}
	if err := r.Client.Get(ctx, types.NamespacedName{Name: pod.Spec.NodeName}, node); client.IgnoreNotFound(err) != nil {
		return g, err
	}
	on := floating.Node{Name: pod.Spec.NodeName, Labels: node.Labels}
	if err := r.reclaim(ctx, pod, on); err != nil {
		return g, err
	}
	_, err = r.Floating.Claim(ctx, pod, on, had.Floating)
	if errors.As(err, new(*floating.UnavailableError)) {
		r.holders.wait(waitsFor(request.Pool), client.ObjectKeyFromObject(pod))
		// An address that was freed before the pod was recorded as waiting enqueued no pod.
		_, err = r.Floating.Claim(ctx, pod, on, had.Floating)
	}
	return r.held(pod, had), err
}

// unnamed returns the floating addresses at a pod's port whose FloatingIPs do not name the pod, because a person removed their holder.
func (r *Reconciler) unnamed(pod *corev1.Pod) []netip.Addr {
	return slices.DeleteFunc(r.Addresses.Held(ownerOf(pod)), func(a netip.Addr) bool {
		f := r.Floating.Book.Get(a)
		return f != nil && f.Spec.Holder != nil && f.Spec.Holder.PodUID == pod.UID
	})
}

// reclaim gives a running pod the addresses of its port again whose holder a person removed, unless somebody else has them.
func (r *Reconciler) reclaim(ctx context.Context, pod *corev1.Pod, on floating.Node) error {
	lost := r.unnamed(pod)
	if len(lost) == 0 {
		return nil
	}
	_, err := r.Floating.Claim(ctx, pod, on, r.Addresses.Held(ownerOf(pod)))
	if errors.As(err, new(*floating.UnavailableError)) {
		r.Events.Eventf(pod, nil, corev1.EventTypeWarning, "FloatingIPLost", "AllocateAddress",
			"%s: the holder of the FloatingIP was removed: %v", claim.Annotation(lost), err)
		return nil
	}
	if err == nil {
		r.Events.Eventf(pod, nil, corev1.EventTypeWarning, "FloatingIPRestored", "AllocateAddress",
			"%s: the holder of the FloatingIP was removed while the pod runs, and is restored; to release the address, delete the pod",
			claim.Annotation(lost))
	}
	return err
}

// waitsFor is the key under which pods wait for an address of a pool.
func waitsFor(pool string) string { return "IPPool " + pool }

// waitsForPort is the key under which a pod waits for the end of another pod's port with its floating address.
func waitsForPort(address netip.Addr) string { return "address " + address.String() }

// freed enqueues the pods that wait for an address of a pool.
func (r *Reconciler) freed(pool string) { r.Wake(waitsFor(pool)) }

// held returns the addresses that the pod has of IPPools. What its interface has stays so, also when the pool was
// deleted or recreated elsewhere.
func (r *Reconciler) held(pod *corev1.Pod, had alloc.Assignment) (g given) {
	for _, f := range r.Floating.Book.Of(pod.UID) {
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

// stillHas reports whether the FloatingIPs give a pod the floating addresses that its port has. A person may have released
// them: the pod gets them again, unless their pool is gone or another pod has them.
func (r *Reconciler) stillHas(ctx context.Context, pod *corev1.Pod, had alloc.Assignment) (bool, error) {
	same := func() bool { return sameAddresses(had.Floating, r.held(pod, had).own) }
	if same() && len(r.unnamed(pod)) == 0 {
		return true, nil
	}
	_, err := r.give(ctx, pod)
	if errors.As(err, new(*floating.UnavailableError)) || errors.Is(err, errRequest) {
		err = nil
	}
	return same(), err
}

// hold holds the addresses that the gateway router translates to a pod, before its port has them. It leaves out an address
// that the port of another pod still has, for which the pod waits.
func (r *Reconciler) hold(pod *corev1.Pod, translated []netip.Addr) (free []netip.Addr) {
	owner := ownerOf(pod)
	others := r.Addresses.Hold(owner, translated)
	for _, address := range others {
		r.holders.wait(waitsForPort(address), client.ObjectKeyFromObject(pod))
	}
	// An address that was freed before the pod was recorded as waiting enqueued no pod.
	others = r.Addresses.Hold(owner, others)
	return slices.DeleteFunc(slices.Clone(translated), func(a netip.Addr) bool { return slices.Contains(others, a) })
}

// holdOnly ends the holds of addresses that a pod's port does not have any more, and enqueues the pods that wait for them.
func (r *Reconciler) holdOnly(owner string, has given) {
	for _, address := range r.Addresses.HoldOnly(owner, slices.Concat(has.own, has.translated)) {
		r.freedPort(address)
	}
}

// freedPort enqueues what waits for a floating address that no port has any more.
func (r *Reconciler) freedPort(address netip.Addr) {
	r.Wake(waitsForPort(address))
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

// addFloating adds the pod's addresses of IPPools to its facts. A server older than OVN 24.09 gets no translation with a
// match: without the match, it would apply to every packet.
func (r *Reconciler) addFloating(
	ctx context.Context, to *topology.Pod, nn *networkv1alpha1.NodeNetwork, has given,
) error {
	to.Floating, to.Translated = has.own, has.translated
	if len(has.own) == 0 && len(has.translated) == 0 {
		return nil
	}
	gateway, err := r.gateway(ctx, nn)
	to.WaysOut = gateway.WaysOut()
	if gateway.HasRouter() && r.Database.Has(nbdb.NATTable, "match") {
		to.Clusters = gateway.Clusters
	}
	return err
}

// leavingBy returns a request for each pod with addresses of IPPools, or with routers of its own, on a node whose way out changed.
func (r *Reconciler) leavingBy(ctx context.Context, node client.Object) (requests []reconcile.Request) {
	var pods corev1.PodList
	// they are only read
	if err := r.Client.List(ctx, &pods, client.MatchingFields{byNode: node.GetName()}, client.UnsafeDisableDeepCopy); err != nil {
		return nil // the cache returns no errors once it is in sync
	}
	for i := range pods.Items {
		if _, asks, _ := claim.Request(&pods.Items[i]); asks || r.Floating.Book.Has(pods.Items[i].UID) || r.isRouted(ctx, &pods.Items[i]) {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&pods.Items[i])})
		}
	}
	return requests
}

// isRouted reports whether a pod has routers of its own. An unreadable selection counts as such, because its retry reads it again.
func (r *Reconciler) isRouted(ctx context.Context, pod *corev1.Pod) bool {
	if !r.routes.Load() {
		return false
	}
	by, err := r.selectedBy(ctx, pod)
	return err != nil || len(by.nextHops) > 0
}

// wayOutChanged passes the updates that change how floating addresses leave a node.
func wayOutChanged(e event.UpdateEvent) bool {
	before, ok := e.ObjectOld.(*networkv1alpha1.NodeNetwork)
	after, ok2 := e.ObjectNew.(*networkv1alpha1.NodeNetwork)
	return !ok || !ok2 || !equality.Semantic.DeepEqual(before.Status.Gateway, after.Status.Gateway) ||
		!equality.Semantic.DeepEqual(before.Spec.Gateway, after.Spec.Gateway) ||
		!slices.Equal(before.Spec.JoinAddresses, after.Spec.JoinAddresses) ||
		!slices.Equal(before.Spec.ClusterSubnets, after.Spec.ClusterSubnets)
}
