// Package node reconciles Nodes. Each gets a NodeNetwork with an ID, subnets and addresses, its rows in the database,
// and an accurate condition NetworkUnavailable.
package node

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/controllers/kind"
	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/floating/claim"
	"github.com/weft-network/weft/pkg/ipam"
	"github.com/weft-network/weft/pkg/ovndb"
	"github.com/weft-network/weft/pkg/topology"
	"github.com/weft-network/weft/pkg/trigger"
	"github.com/weft-network/weft/pkg/unit"
)

// Database is the part of the engine that the reconciler uses.
type Database interface {
	Apply(ctx context.Context, u unit.Unit) error
}

// Addresses receives the subnets of nodes.
type Addresses interface {
	// SetNode returns the owners of addresses that are no longer in a subnet of the node. They have lost their
	// assignment.
	SetNode(name string, subnets []netip.Prefix) (dropped []string)
	// RemoveNode returns the owners of addresses of the node. They have lost their assignment.
	RemoveNode(name string) (owners []string)
}

// Reconciler reconciles Nodes.
type Reconciler struct {
	Client client.Client
	// Live reads from the API server, past the cache. If it is nil, only the cache is read.
	Live      client.Reader
	Database  Database
	Addresses Addresses
	Events    events.EventRecorder
	Triggers  *trigger.Set
	// SubnetsSet publishes a node whose subnets Addresses now has. AddressesLost publishes the owners of addresses
	// that went with their node, or with its subnet.
	SubnetsSet *kind.Topic[string]
	// Floating has the addresses of deleted pools that are still in use.
	Floating      *claim.Claimer
	AddressesLost *kind.Topic[[]string]

	// choosing is held while one node chooses free values, until they are recorded. It must be locked before mu.
	choosing sync.Mutex

	mu sync.Mutex
	// node -> last spec, which may not be in the cache yet or be deleted by hand
	assigned map[string]networkv1alpha1.NodeNetworkSpec
	waiting  map[string]bool // nodes that found no subnet -> they have no NodeNetwork
	// the cache has all NodeNetworks that existed when this process read past it
	caughtUp bool
}

// Reconcile implements reconcile.Reconciler.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var node corev1.Node
	if err := r.Client.Get(ctx, req.NamespacedName, &node); apierrors.IsNotFound(err) {
		return r.remove(ctx, req.Name)
	} else if err != nil {
		return ctrl.Result{}, err
	}
	var cn networkv1alpha1.ClusterNetwork
	if err := r.Client.Get(ctx, types.NamespacedName{Name: networkv1alpha1.ClusterNetworkName}, &cn); apierrors.IsNotFound(err) {
		return ctrl.Result{}, r.freeze(ctx, &node, "there is no ClusterNetwork \"default\"")
	} else if err != nil {
		return ctrl.Result{}, err
	}
	plan, err := facts.PlanInForce(&cn)
	if held := (*facts.HeldError)(nil); errors.As(err, &held) {
		return ctrl.Result{}, r.freeze(ctx, &node, "the networks of the ClusterNetwork are not in force: "+held.Message)
	} else if err != nil {
		return ctrl.Result{}, nil // unchanged; the ClusterNetwork's condition reports it
	}
	if refused, err := r.refuse(ctx, &node, plan); refused || err != nil {
		return ctrl.Result{}, err
	}
	return r.serve(ctx, &node, &cn, plan)
}

// serve gives a node its network according to a plan.
func (r *Reconciler) serve(ctx context.Context, node *corev1.Node, cn *networkv1alpha1.ClusterNetwork,
	plan facts.Plan) (ctrl.Result, error) {
	gateway, err := facts.NodeGateway(cn.Spec.Gateway, node.Labels)
	if err != nil {
		r.Events.Eventf(cn, nil, corev1.EventTypeWarning, "InvalidGateway", "ResolveGateway", "%v", err)
		return ctrl.Result{}, nil // unchanged
	}
	physical, err := facts.NodePhysicalNetworks(cn.Spec.PhysicalNetworks, node.Labels)
	if err != nil {
		r.Events.Eventf(cn, nil, corev1.EventTypeWarning, "InvalidPhysicalNetworks", "ResolvePhysicalNetworks", "%v", err)
		return ctrl.Result{}, nil // unchanged
	}
	settings := facts.Settings{MTU: cn.Status.MTU, Encapsulation: cn.Spec.Encapsulation, Gateway: gateway,
		DNS: cn.Spec.DNS, ReservedPorts: cn.Spec.ReservedPorts, HostPorts: cn.Spec.HostPorts, PhysicalNetworks: physical,
		Relays: facts.NodeRelays(node.Name, cn.Status.Relays)}
	nn, err := r.ensure(ctx, node, plan, settings, cn.Spec.Gateway.MaxMoving)
	if errors.Is(err, errPending) {
		r.Triggers.Enqueue(topology.KindNetwork, types.NamespacedName{Name: networkv1alpha1.ClusterNetworkName})
		return ctrl.Result{}, nil // the change of the ClusterNetwork's status enqueues this node again
	}
	if errors.Is(err, ipam.ErrExhausted) {
		r.Events.Eventf(node, nil, corev1.EventTypeWarning, "FailedSubnetAllocation", "AllocateSubnet", "%v", err)
		return ctrl.Result{}, errors.Join(r.vacateUnlessNetwork(ctx, node.Name), r.setCondition(ctx, node, nil, err.Error()))
	} else if err != nil {
		return ctrl.Result{}, err
	}
	applied := r.apply(ctx, nn)
	reportErr := r.report(ctx, nn, applied)
	if ovndb.IsPending(applied) {
		applied = nil // the engine retries by itself
	}
	untainted := r.removeTaint(ctx, node, nn)
	if err := errors.Join(applied, ignoreConflict(reportErr), ignoreConflict(untainted), r.setCondition(ctx, node, nn, "")); err != nil {
		return ctrl.Result{}, err
	}
	if reportErr != nil || untainted != nil { // the agent or kubelet has written meanwhile
		return ctrl.Result{RequeueAfter: trigger.FirstRetry}, nil
	}
	return ctrl.Result{}, nil
}

// remove removes a node that was deleted. Its NodeNetwork is deleted first, so that its subnet becomes free only when
// no agent reads it.
func (r *Reconciler) remove(ctx context.Context, name string) (ctrl.Result, error) {
	nn := &networkv1alpha1.NodeNetwork{}
	err := r.Client.Get(ctx, types.NamespacedName{Name: name}, nn)
	if err == nil {
		var exists bool
		if exists, err = r.ownerExists(ctx, nn); exists {
			return ctrl.Result{RequeueAfter: cacheLag}, nil
		}
		if err == nil {
			err = r.Client.Delete(ctx, nn) // the deletion enqueues the node again
		}
	}
	if client.IgnoreNotFound(err) != nil {
		return ctrl.Result{}, err
	}
	if err := r.vacate(ctx, name); err != nil {
		return ctrl.Result{}, err
	}
	r.wake(name)
	return ctrl.Result{}, nil
}

// wake drops the state of a node, and enqueues the nodes that wait for a subnet.
func (r *Reconciler) wake(without string) {
	for _, waiting := range r.forget(without) {
		r.Triggers.Enqueue(topology.KindNode, types.NamespacedName{Name: waiting})
	}
}

// cacheLag is when a Node that only the API server has is looked for again. Usually the cache has it within milliseconds,
// and its event reconciles it.
const cacheLag = 5 * time.Second

// ownerExists reports whether the API server has the Node of a NodeNetwork. After a start, the cache of Nodes may be older
// than the cache of NodeNetworks.
func (r *Reconciler) ownerExists(ctx context.Context, nn *networkv1alpha1.NodeNetwork) (bool, error) {
	if r.Live == nil {
		return false, nil
	}
	var node corev1.Node
	if err := r.Live.Get(ctx, types.NamespacedName{Name: nn.Name}, &node); err != nil {
		return false, client.IgnoreNotFound(err)
	}
	owner := metav1.GetControllerOf(nn)
	return owner == nil || owner.UID == node.UID, nil
}

// vacate removes the rows and addresses of a node without a network.
func (r *Reconciler) vacate(ctx context.Context, name string) error {
	if err := ovndb.IgnorePending(r.Database.Apply(ctx, unit.Unit{Key: topology.NodeKey(name)})); err != nil {
		return err
	}
	if owners := r.Addresses.RemoveNode(name); len(owners) > 0 {
		r.AddressesLost.Publish(owners)
	}
	return nil
}

// vacateUnlessNetwork vacates a node that finds no subnet, unless it has a network. Its network may have been
// deleted, and its subnet given to others, while no process ran. The gateway's controller removes the gateway's rows,
// because HasNone reports the node.
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
	// the gateway's rows must be removed too
	r.Triggers.Enqueue(topology.KindGateway, types.NamespacedName{Name: name})
	return r.vacate(ctx, name)
}

// HasNone reports whether a node waits for a subnet and has no NodeNetwork. Rows of an earlier NodeNetwork are no
// longer its own.
func (r *Reconciler) HasNone(name string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.waiting[name]
}

// forget drops the state of a node and returns the nodes that wait for a subnet, because one may be free now. A node
// that finds none waits again.
func (r *Reconciler) forget(name string) []string {
	r.choosing.Lock() // a node that is choosing now must be in waiting before the list is read
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

// ensure creates or completes the node's NodeNetwork. At most maxMoving nodes may move their links at a time.
func (r *Reconciler) ensure(ctx context.Context, node *corev1.Node, plan facts.Plan, settings facts.Settings,
	maxMoving int32) (*networkv1alpha1.NodeNetwork, error) {
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
	patch := client.MergeFromWithOptions(nn.DeepCopy(), client.MergeFromWithOptimisticLock{})
	nn.Spec = spec
	return nn, r.Client.Patch(ctx, nn, patch)
}

// choose returns the node's NodeNetwork, whether it exists, and its desired spec.
func (r *Reconciler) choose(ctx context.Context, node *corev1.Node, plan facts.Plan, settings facts.Settings, maxMoving int32) (
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
	if !facts.IsComplete(nn.Spec, plan) {
		if plan.Pending {
			return nil, false, spec, errPending
		}
		if plan.Floating, err = r.floating(ctx); err != nil {
			return nil, false, spec, err
		}
		if others, err = r.others(ctx, node.Name); err != nil {
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
	return nn, found, spec, nil
}

// floating returns the addresses that IPPools give to pods. The caller holds r.choosing, so that a node which finds no subnet
// because of them is enqueued when they are free.
func (r *Reconciler) floating(ctx context.Context) ([]netip.Prefix, error) {
	var pools networkv1alpha1.IPPoolList
	err := r.Client.List(ctx, &pools, client.UnsafeDisableDeepCopy) // they are only read
	if err = errors.Join(err, r.Floating.Load(ctx)); err != nil {
		return nil, err
	}
	return r.Floating.Book.Overlay(pools.Items), nil
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
		// A subnet in both counts once, for the number of subnets in use in an error.
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
	if err := r.Client.List(ctx, &cached, client.UnsafeDisableDeepCopy); err != nil {
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
	read, err := facts.ParseNodeNetwork(nn)
	if err != nil {
		return err
	}
	r.setAddresses(read)
	return nil
}

func (r *Reconciler) setAddresses(node facts.Node) {
	defer r.SubnetsSet.Publish(node.Name) // a pod may have read the NodeNetwork before Addresses had the subnets
	if dropped := r.Addresses.SetNode(node.Name, node.Subnets); len(dropped) > 0 {
		r.AddressesLost.Publish(dropped)
	}
}

// apply passes the node's subnets to Addresses and its rows to the database.
func (r *Reconciler) apply(ctx context.Context, nn *networkv1alpha1.NodeNetwork) error {
	read, err := facts.ParseNodeNetwork(nn)
	if err != nil {
		return err
	}
	r.setAddresses(read)
	return r.Database.Apply(ctx, topology.NodeUnit(read))
}
