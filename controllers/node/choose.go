package node

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/controllers/kind"
	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/ipam"
)

// ensure creates or completes the node's NodeNetwork. At most maxMoving nodes may move their links, or change their gateway, at a time.
func (r *Reconciler) ensure(ctx context.Context, node *corev1.Node, plan facts.Plan, settings facts.Settings,
	maxMoving int32) (*networkv1alpha1.NodeNetwork, error) {
	if r.Begun != nil { // before, the former subnet of a node whose NodeNetwork was deleted is not known
		if err := r.Begun(ctx); err != nil {
			return nil, err
		}
	}
	nn, found, spec, err := r.choose(ctx, node, plan, settings, maxMoving)
	if err != nil {
		return nil, err
	}
	if found && equality.Semantic.DeepEqual(spec, nn.Spec) {
		return nn, nil
	}
	// Pods are served as soon as the agent has seen the NodeNetwork, so Addresses must have the subnets by then.
	if err := r.setSubnets(&networkv1alpha1.NodeNetwork{ObjectMeta: nn.ObjectMeta, Spec: spec}); err != nil {
		return nil, err
	}
	if !found {
		nn.Spec = spec
		return nn, r.Client.Create(ctx, nn)
	}
	before := kind.Detach(nn)
	spec.DeepCopyInto(&nn.Spec)
	return nn, kind.Write(ctx, r.Client, before, nn)
}

// choose returns the node's NodeNetwork, whether it exists, and its desired spec.
func (r *Reconciler) choose(ctx context.Context, node *corev1.Node, plan facts.Plan, settings facts.Settings, maxMoving int32) (
	nn *networkv1alpha1.NodeNetwork, found bool, spec networkv1alpha1.NodeNetworkSpec, err error) {
	r.choosing.Lock()
	defer r.choosing.Unlock()
	if nn, found, err = r.get(ctx, node); err != nil {
		return nil, false, spec, err
	}
	if settings.Gateway, err = r.gatewayInTurn(ctx, node, nn, settings.Gateway, maxMoving); err != nil {
		return nil, false, spec, err
	}
	if settings.Gateway.Move, err = r.turn(ctx, nn, maxMoving); err != nil {
		return nil, false, spec, err
	}
	if r.Zone.Elsewhere(nn) {
		settings.Full = facts.FullFamilies(nn)
	}
	var others []networkv1alpha1.NodeNetworkSpec
	if !facts.IsComplete(nn.Spec, plan, settings) {
		if plan.Pending {
			return nil, false, spec, errPending
		}
		if plan.Floating, err = r.floating(ctx); err != nil {
			return nil, false, spec, err
		}
		if others, err = r.others(ctx, node.Name); err != nil {
			return nil, false, spec, err
		}
		if others, err = r.former(nn, plan, others); err != nil {
			return nil, false, spec, err
		}
	}
	if spec, err = facts.NodeSpec(nn.Spec, plan, others, settings); err != nil {
		if errors.Is(err, ipam.ErrExhausted) {
			r.wait(node.Name, false)
		}
		return nil, false, spec, fmt.Errorf("node %s: %w", node.Name, err)
	}
	r.remember(node.Name, spec)
	if facts.Lacking(spec, plan, settings) {
		r.wait(node.Name, false) // for a subnet that another node gives up
	}
	return nn, found, spec, nil
}

// former gives a node without subnets its former subnets, and adds the former subnets of other nodes to the others. Such nodes lost
// their NodeNetworks while no process ran, and their pods have the addresses.
func (r *Reconciler) former(nn *networkv1alpha1.NodeNetwork, plan facts.Plan, others []networkv1alpha1.NodeNetworkSpec) (
	[]networkv1alpha1.NodeNetworkSpec, error) {
	subnets, err := plan.FormerSubnets(r.Addresses.AwaitedAddresses(), others)
	if err != nil {
		return nil, err
	}
	if len(nn.Spec.PodSubnets) == 0 {
		nn.Spec.PodSubnets = subnets[nn.Name]
	}
	delete(subnets, nn.Name)
	for _, had := range subnets {
		others = append(others, networkv1alpha1.NodeNetworkSpec{PodSubnets: had})
	}
	return others, nil
}

// floating returns the addresses that IPPools give to pods, and that ports have: a pod gets the address of its port again that a person
// has just released. The caller holds r.choosing, so that a node which finds no subnet because of them is enqueued when they are free.
func (r *Reconciler) floating(ctx context.Context) ([]netip.Prefix, error) {
	var pools networkv1alpha1.IPPoolList
	err := r.Client.List(ctx, &pools)
	if err = errors.Join(err, r.Floating.Load(ctx)); err != nil {
		return nil, err
	}
	kept := r.Floating.Book.Overlay(pools.Items)
	for _, address := range r.Addresses.HeldAddresses() {
		kept = append(kept, netip.PrefixFrom(address, address.BitLen()))
	}
	return kept, nil
}

// get returns the node's NodeNetwork, or a new one with the previous assignment, because pods may still run with
// those addresses. It replaces a NodeNetwork of an earlier Node of this name, which the garbage collector would
// delete at any time, and a NodeNetwork with values that another node had before.
func (r *Reconciler) get(ctx context.Context, node *corev1.Node) (nn *networkv1alpha1.NodeNetwork, found bool, err error) {
	nn = &networkv1alpha1.NodeNetwork{}
	err = r.Client.Get(ctx, types.NamespacedName{Name: node.Name}, nn)
	if err == nil {
		owner := metav1.GetControllerOf(nn)
		yields, failed := r.yields(ctx, nn)
		switch {
		case failed != nil:
			return nil, false, failed
		case yields:
			r.disown(node.Name)
		case owner == nil || owner.UID == node.UID:
			return nn, true, nil
		default:
			r.remember(node.Name, nn.Spec)
		}
		err = r.Client.Delete(ctx, nn, client.Preconditions{UID: &nn.UID})
	}
	if client.IgnoreNotFound(err) != nil {
		return nil, false, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	nn = &networkv1alpha1.NodeNetwork{ObjectMeta: metav1.ObjectMeta{Name: node.Name}, Spec: r.assigned[node.Name]}
	nn.OwnerReferences = []metav1.OwnerReference{ownerOf(node)}
	return nn, false, nil
}

// ownerOf makes the garbage collector delete a NodeNetwork with its Node. It does not block the Node's deletion,
// because in clusters that enforce permissions on owner references, that requires write access to the Node's
// finalizers.
func ownerOf(node *corev1.Node) metav1.OwnerReference {
	owner := *metav1.NewControllerRef(node, corev1.SchemeGroupVersion.WithKind("Node"))
	owner.BlockOwnerDeletion = nil
	return owner
}

// others lists the assignments of the other nodes: the cache, and recent writes that may not be in the cache yet. The
// first list of a new process is not sufficient to choose free values, because it may be older than the last writes
// of an earlier process.
func (r *Reconciler) others(ctx context.Context, name string) ([]networkv1alpha1.NodeNetworkSpec, error) {
	list, err := r.networks(ctx)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	var others []networkv1alpha1.NodeNetworkSpec
	cached := make(map[string]*networkv1alpha1.NodeNetworkSpec, len(list.Items))
	for i := range list.Items {
		if list.Items[i].Name != name {
			cached[list.Items[i].Name] = &list.Items[i].Spec
			others = append(others, list.Items[i].Spec)
		}
	}
	for node, spec := range r.assigned {
		was := cached[node]
		if node != name && (was == nil || spec.NodeID != was.NodeID || !slices.Equal(spec.PodSubnets, was.PodSubnets)) {
			others = append(others, spec)
		}
	}
	return others, nil
}

// networks lists the NodeNetworks past the cache, until the cache has all that existed at one such moment. From then
// on the cache lacks only writes of this process, which records them.
func (r *Reconciler) networks(ctx context.Context) (*networkv1alpha1.NodeNetworkList, error) {
	var cached, live networkv1alpha1.NodeNetworkList
	// the caller only reads, and this runs for each node
	if err := r.Client.List(ctx, &cached); err != nil {
		return nil, err
	}
	r.mu.Lock()
	enough := r.Live == nil || r.caughtUp
	r.mu.Unlock()
	if enough {
		return &cached, nil
	}
	if err := r.Live.List(ctx, &live); err != nil {
		return nil, err
	}
	known := make(map[types.UID]bool, len(cached.Items))
	for i := range cached.Items {
		known[cached.Items[i].UID] = true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.caughtUp = !slices.ContainsFunc(live.Items, func(nn networkv1alpha1.NodeNetwork) bool { return !known[nn.UID] })
	return withCached(&live, cached.Items), nil
}

// withCached adds objects that only the cache has. A NodeNetwork that a user has just deleted is recreated with its
// spec if its Node exists.
func withCached(live *networkv1alpha1.NodeNetworkList, cached []networkv1alpha1.NodeNetwork) *networkv1alpha1.NodeNetworkList {
	there := make(map[string]bool, len(live.Items))
	for i := range live.Items {
		there[live.Items[i].Name] = true
	}
	for i := range cached {
		if !there[cached[i].Name] {
			live.Items = append(live.Items, cached[i])
		}
	}
	return live
}

// restored remembers a NodeNetwork from before this process, which may be deleted before its node is reconciled.
func (r *Reconciler) restored(nn *networkv1alpha1.NodeNetwork) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, chosen := r.assigned[nn.Name]; !chosen {
		r.assign(nn.Name, nn.Spec)
	}
}

func (r *Reconciler) remember(name string, spec networkv1alpha1.NodeNetworkSpec) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.assign(name, spec)
	delete(r.waiting, name)
}

// assign is called with r.mu held.
func (r *Reconciler) assign(name string, spec networkv1alpha1.NodeNetworkSpec) {
	if r.assigned == nil {
		r.assigned = map[string]networkv1alpha1.NodeNetworkSpec{}
	}
	r.assigned[name] = spec
}
