// Package node reconciles Nodes: each gets a NodeNetwork with an ID, subnets and addresses, its rows in the database, and
// the condition NetworkUnavailable that is true.
package node

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/ipam"
	"github.com/weft-network/weft/pkg/ovndb"
	"github.com/weft-network/weft/pkg/topology"
	"github.com/weft-network/weft/pkg/trigger"
	"github.com/weft-network/weft/pkg/unit"
)

// Database is what the reconciler needs of the engine.
type Database interface {
	Apply(ctx context.Context, u unit.Unit) error
}

// Addresses is told which subnets a node has.
type Addresses interface {
	// SetNode returns the owners of addresses that are in no subnet of the node any more, who have none now.
	SetNode(name string, subnets []netip.Prefix) (dropped []string)
	// RemoveNode returns the owners of addresses of the node, who have none now.
	RemoveNode(name string) (owners []string)
}

// Reconciler reconciles Nodes.
type Reconciler struct {
	Client client.Client
	// Live reads from the API server, past the cache; nil: the cache is all there is.
	Live      client.Reader
	Database  Database
	Addresses Addresses
	Events    events.EventRecorder
	Trigger   *trigger.Trigger
	// Looked is called with each node that was reconciled, whatever came of it; it may be nil.
	Looked func(types.NamespacedName)
	// Removed is called with the owners of addresses that went with their node, or with its subnet.
	Removed func(owners []string)
	// Vacated is called with a node whose network went and whose subnet others have: what else was made of it must go too.
	Vacated func(types.NamespacedName)

	// choosing is held while one node chooses among what the others do not have, until that is remembered. It comes before mu.
	choosing sync.Mutex

	mu       sync.Mutex
	assigned map[string]networkv1alpha1.NodeNetworkSpec // node -> the last spec: it may not be in the cache yet, or deleted by hand
	waiting  map[string]bool                            // nodes that found no subnet -> there is no NodeNetwork
	caughtUp bool                                       // the cache has all NodeNetworks that were there when this process looked past it
}

// Reconcile implements reconcile.Reconciler.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var node corev1.Node
	if err := r.Client.Get(ctx, req.NamespacedName, &node); apierrors.IsNotFound(err) {
		return ctrl.Result{}, r.remove(ctx, req.Name)
	} else if err != nil {
		return ctrl.Result{}, err
	}
	var cn networkv1alpha1.ClusterNetwork
	if err := r.Client.Get(ctx, types.NamespacedName{Name: networkv1alpha1.ClusterNetworkName}, &cn); apierrors.IsNotFound(err) {
		return ctrl.Result{}, r.freeze(ctx, &node)
	} else if err != nil {
		return ctrl.Result{}, err
	}
	plan, err := topology.ParseClusterNetwork(&cn)
	if err != nil {
		return ctrl.Result{}, nil // frozen as it is; the ClusterNetwork's condition tells
	}
	gateway, err := topology.NodeGateway(cn.Spec.Gateway, node.Labels)
	if err != nil {
		r.Events.Eventf(&cn, nil, corev1.EventTypeWarning, "InvalidGateway", "ResolveGateway", "%v", err)
		return ctrl.Result{}, nil // frozen as it is
	}
	nn, err := r.ensure(ctx, &node, plan, topology.Settings{MTU: cn.Status.MTU, Encapsulation: cn.Spec.Encapsulation, Gateway: gateway, DNS: cn.Spec.DNS}, cn.Spec.Gateway.MaxMoving)
	if errors.Is(err, ipam.ErrExhausted) {
		r.Events.Eventf(&node, nil, corev1.EventTypeWarning, "FailedSubnetAllocation", "AllocateSubnet", "%v", err)
		return ctrl.Result{}, errors.Join(r.vacateUnlessNetwork(ctx, node.Name), r.setCondition(ctx, &node, nil, err.Error()))
	} else if err != nil {
		return ctrl.Result{}, err
	}
	applied := r.apply(ctx, nn)
	told := r.tell(ctx, nn, applied)
	if ovndb.IsPending(applied) {
		applied = nil // the engine goes on by itself
	}
	untainted := r.removeTaint(ctx, &node, nn)
	if err := errors.Join(applied, ignoreConflict(told), ignoreConflict(untainted), r.setCondition(ctx, &node, nn, "")); err != nil {
		return ctrl.Result{}, err
	}
	if told != nil || untainted != nil { // the agent or kubelet has written meanwhile
		return ctrl.Result{RequeueAfter: trigger.FirstRetry}, nil
	}
	return ctrl.Result{}, nil
}

// freeze leaves a node as it is while there is no ClusterNetwork: one with a network keeps it, and its pods.
func (r *Reconciler) freeze(ctx context.Context, node *corev1.Node) error {
	nn := &networkv1alpha1.NodeNetwork{}
	err := r.Client.Get(ctx, types.NamespacedName{Name: node.Name}, nn)
	if apierrors.IsNotFound(err) {
		return r.setCondition(ctx, node, nil, "there is no ClusterNetwork \"default\"")
	}
	if err != nil {
		return err
	}
	return r.setCondition(ctx, node, nn, "")
}

// remove forgets a node that is gone. Its NodeNetwork goes first, so that its subnet is free only when nobody reads it.
func (r *Reconciler) remove(ctx context.Context, name string) error {
	nn := &networkv1alpha1.NodeNetwork{}
	err := r.Client.Get(ctx, types.NamespacedName{Name: name}, nn)
	if err == nil {
		err = r.Client.Delete(ctx, nn) // the deletion comes back here
	}
	if client.IgnoreNotFound(err) != nil {
		return err
	}
	if err := r.vacate(ctx, name); err != nil {
		return err
	}
	for _, waiting := range r.forget(name) {
		r.Trigger.Enqueue(types.NamespacedName{Name: waiting})
	}
	return nil
}

// vacate takes the rows of a node without a network away, and its addresses.
func (r *Reconciler) vacate(ctx context.Context, name string) error {
	if err := ovndb.IgnorePending(r.Database.Apply(ctx, unit.Unit{Key: topology.NodeKey(name)})); err != nil {
		return err
	}
	if owners := r.Addresses.RemoveNode(name); len(owners) > 0 {
		r.Removed(owners)
	}
	return nil
}

// vacateUnlessNetwork does that for a node that finds no subnet: its network may have gone, and its subnet to others, while no process remembered it.
// Its gateway's rows are the gateway's controller's, which asks HasNone.
func (r *Reconciler) vacateUnlessNetwork(ctx context.Context, name string) error {
	reader := r.Live
	if reader == nil {
		reader = r.Client
	}
	err := reader.Get(ctx, types.NamespacedName{Name: name}, &networkv1alpha1.NodeNetwork{})
	if !apierrors.IsNotFound(err) {
		return err
	}
	r.wait(name, true)
	r.Vacated(types.NamespacedName{Name: name})
	return r.vacate(ctx, name)
}

// HasNone reports whether a node waits for a subnet, without a NodeNetwork: nothing that was made of an earlier one is its own any more.
func (r *Reconciler) HasNone(name string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.waiting[name]
}

// forget drops what is remembered of a node and returns the nodes that wait for a subnet, since one may be free now; those
// that find none wait again.
func (r *Reconciler) forget(name string) []string {
	r.choosing.Lock() // who chooses now, and finds nothing, waits before this looks who does
	defer r.choosing.Unlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.assigned, name)
	delete(r.waiting, name)
	waiting := slices.Sorted(maps.Keys(r.waiting))
	r.waiting = nil
	return waiting
}

func (r *Reconciler) wait(name string, none bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.waiting == nil {
		r.waiting = map[string]bool{}
	}
	r.waiting[name] = none
}

// ensure creates or completes the node's NodeNetwork. So many nodes may move their links at a time.
func (r *Reconciler) ensure(ctx context.Context, node *corev1.Node, plan topology.Plan, settings topology.Settings, maxMoving int32) (*networkv1alpha1.NodeNetwork, error) {
	nn, found, spec, err := r.choose(ctx, node, plan, settings, maxMoving)
	if err != nil {
		return nil, err
	}
	if found && equality.Semantic.DeepEqual(spec, nn.Spec) {
		return nn, nil
	}
	// Pods are served as soon as the agent has seen the NodeNetwork, so that their addresses must be known by then.
	if err := r.setSubnets(&networkv1alpha1.NodeNetwork{ObjectMeta: nn.ObjectMeta, Spec: spec}); err != nil {
		return nil, err
	}
	if !found {
		nn.Spec = spec
		return nn, r.Client.Create(ctx, nn)
	}
	patch := client.MergeFromWithOptions(nn.DeepCopy(), client.MergeFromWithOptimisticLock{})
	nn.Spec = spec
	return nn, r.Client.Patch(ctx, nn, patch)
}

// choose returns the node's NodeNetwork, whether there is one, and what it shall be.
func (r *Reconciler) choose(ctx context.Context, node *corev1.Node, plan topology.Plan, settings topology.Settings, maxMoving int32) (
	nn *networkv1alpha1.NodeNetwork, found bool, spec networkv1alpha1.NodeNetworkSpec, err error) {
	r.choosing.Lock()
	defer r.choosing.Unlock()
	if nn, found, err = r.get(ctx, node); err != nil {
		return nil, false, spec, err
	}
	if settings.Gateway.Move, err = r.turn(ctx, nn, maxMoving); err != nil {
		return nil, false, spec, err
	}
	var others []networkv1alpha1.NodeNetworkSpec
	if !topology.IsComplete(nn.Spec, plan) {
		if others, err = r.others(ctx, node.Name); err != nil {
			return nil, false, spec, err
		}
	}
	if spec, err = topology.NodeSpec(nn.Spec, plan, others, settings); err != nil {
		if errors.Is(err, ipam.ErrExhausted) {
			r.wait(node.Name, false)
		}
		return nil, false, spec, fmt.Errorf("node %s: %w", node.Name, err)
	}
	r.remember(node.Name, spec)
	return nn, found, spec, nil
}

// get returns the node's NodeNetwork, or a new one with what was assigned before: pods may still run with those addresses.
// One of an earlier Node of this name is replaced: the garbage collector would delete it at a time of its own choice. One that has what another had
// before is replaced by one with something else.
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

// ownerOf makes the garbage collector remove a NodeNetwork with its Node. It does not block the Node's deletion: clusters that
// enforce permissions on owner references let only those block who may write the Node's finalizers.
func ownerOf(node *corev1.Node) metav1.OwnerReference {
	owner := *metav1.NewControllerRef(node, corev1.SchemeGroupVersion.WithKind("Node"))
	owner.BlockOwnerDeletion = nil
	return owner
}

// others lists what the other nodes have: the cache, and what was written and may not be in the cache yet. To choose what nobody has, the
// first list of a new process will not do: it may be older than the last writes of the one before.
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
		// What is in both counts once: a node that finds nothing is told how many subnets are in use.
		was := cached[node]
		if node != name && (was == nil || spec.NodeID != was.NodeID || !slices.Equal(spec.PodSubnets, was.PodSubnets)) {
			others = append(others, spec)
		}
	}
	return others, nil
}

// networks lists the NodeNetworks past the cache, until that has all that there were at such a moment. From then on what it lacks was written by this process, which remembers it.
func (r *Reconciler) networks(ctx context.Context) (*networkv1alpha1.NodeNetworkList, error) {
	var cached, live networkv1alpha1.NodeNetworkList
	if err := r.Client.List(ctx, &cached, client.UnsafeDisableDeepCopy); err != nil { // who asks only reads: all other nodes, for each
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

// withCached adds what only the cache has: one that somebody has just deleted comes back with what it had, if its Node is there.
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

func (r *Reconciler) remember(name string, spec networkv1alpha1.NodeNetworkSpec) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.assigned == nil {
		r.assigned = map[string]networkv1alpha1.NodeNetworkSpec{}
	}
	r.assigned[name] = spec
	delete(r.waiting, name)
}

func (r *Reconciler) setSubnets(nn *networkv1alpha1.NodeNetwork) error {
	facts, err := topology.ParseNodeNetwork(nn)
	if err != nil {
		return err
	}
	r.tellSubnets(facts)
	return nil
}

func (r *Reconciler) tellSubnets(node topology.Node) {
	if dropped := r.Addresses.SetNode(node.Name, node.Subnets); len(dropped) > 0 {
		r.Removed(dropped)
	}
}

// apply makes the node's subnets and rows known.
func (r *Reconciler) apply(ctx context.Context, nn *networkv1alpha1.NodeNetwork) error {
	facts, err := topology.ParseNodeNetwork(nn)
	if err != nil {
		return err
	}
	r.tellSubnets(facts)
	return r.Database.Apply(ctx, topology.NodeUnit(facts))
}
