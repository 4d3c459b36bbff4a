// Package node reconciles Nodes. Each gets a NodeNetwork with an ID, subnets and addresses, its rows in the database,
// and an accurate condition NetworkUnavailable.
package node

import (
	"context"
	"errors"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/controllers/kind"
	"github.com/weft-network/weft/pkg/addresses/floating/claim"
	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/ipam"
	"github.com/weft-network/weft/pkg/ipam/alloc"
	"github.com/weft-network/weft/pkg/ovndb"
	"github.com/weft-network/weft/pkg/process/trigger"
	"github.com/weft-network/weft/pkg/topology"
	"github.com/weft-network/weft/pkg/unit"
)

// Database is the part of the engine that the reconciler uses.
type Database interface {
	Apply(ctx context.Context, u unit.Unit) error
}

// Addresses receives the subnets of nodes.
type Addresses interface {
	// SetNode returns the owners of addresses that are no longer in a subnet of the node, which have lost their assignment,
	// and the owners whose addresses differ from now on from a new pod's.
	SetNode(name string, subnets, leaving []netip.Prefix) (dropped, outdated []alloc.Owner)
	// Idle lists leaving subnets without a pod, Lacking the families in which a pod finds no address.
	Idle(name string) []netip.Prefix
	Lacking(name string) []bool
	// AwaitedAddresses returns the addresses of pods whose nodes have no subnets: node -> addresses.
	AwaitedAddresses() map[string][]netip.Addr
	// HeldAddresses returns the floating addresses that ports have.
	HeldAddresses() []netip.Addr
	// Known reports whether all addresses in use are recorded. Before, pods of a new process wait for no address.
	Known() bool
	// RemoveNode returns the owners of addresses of the node. They have lost their assignment.
	RemoveNode(name string) (owners []alloc.Owner)
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
	// that went with their node, or with its subnet. PodsOutdated publishes the owners of addresses that differ from a new pod's.
	SubnetsSet *kind.Topic[string]
	// Floating has the addresses of deleted pools that are still in use.
	Floating      *claim.Claimer
	AddressesLost *kind.Topic[[]alloc.Owner]
	PodsOutdated  *kind.Topic[[]alloc.Owner]
	// Wildcards lists the DNS names with wildcards that nodes observe.
	Wildcards func(ctx context.Context) ([]string, error)
	Zone      kind.Zone
	// Begun, if set, waits until the addresses in use are restored, for a limited time.
	Begun func(ctx context.Context) error
	// OnSegments lists what pods of a node have on physical networks: see kind.Env.
	OnSegments func(ctx context.Context, node string) (users map[networkv1alpha1.PhysicalNetworkName][]string, known bool)
	// PodsLackAddress reports whether pods of a node find no address. It is needed in a zone only.
	PodsLackAddress func(node string) bool

	// choosing is held while one node chooses free values, until they are recorded. It must be locked before mu.
	choosing sync.Mutex

	mu sync.Mutex
	// node -> last spec, which may not be in the cache yet or be deleted by hand
	assigned map[string]networkv1alpha1.NodeNetworkSpec
	waiting  map[string]bool // nodes that found no subnet -> they have no NodeNetwork
	// waitingForGateway are the nodes that keep their former spec.gateway until it is their turn.
	waitingForGateway map[string]bool
	// the cache has all NodeNetworks that existed when this process read past it
	caughtUp bool
}

// Reconcile implements reconcile.Reconciler.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	if r.Zone.Follows() {
		return r.follow(ctx, req.NamespacedName)
	}
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
	if facts.AwaitsJudgement(&cn) {
		return r.awaitJudgement()
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

// awaitJudgement leaves a node as it is until the networks are judged. Otherwise it would give up a removed network before
// status.networks says that the network is leaving.
func (r *Reconciler) awaitJudgement() (ctrl.Result, error) {
	r.Triggers.Enqueue(topology.KindNetwork, types.NamespacedName{Name: networkv1alpha1.ClusterNetworkName})
	return ctrl.Result{}, nil // the change of the ClusterNetwork's status enqueues the node again
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
	wildcards, err := r.wildcards(ctx, cn)
	if err != nil {
		return ctrl.Result{}, err
	}
	protection, err := r.protection(ctx, cn)
	if err != nil {
		return ctrl.Result{}, err
	}
	settings := facts.Settings{Wildcards: wildcards, Encryption: protection,
		MTU: cn.Status.MTU, Encapsulation: cn.Spec.Encapsulation, Gateway: gateway,
		DNS: cn.Spec.DNS, ReservedPorts: cn.Spec.ReservedPorts, HostPorts: cn.Spec.HostPorts, PhysicalNetworks: physical,
		Idle: r.Addresses.Idle(node.Name), Full: r.Addresses.Lacking(node.Name), Zoned: len(cn.Spec.Zones) > 0}
	if err := r.addZone(ctx, node, cn, &settings); err != nil {
		return ctrl.Result{}, err
	}
	users := r.physicalUsers(ctx, node.Name, cn)
	settings.PhysicalUsed = users.include
	nn, err := r.ensure(ctx, node, plan, settings, cn.Spec.Gateway.MaxMoving)
	if errors.Is(err, errPending) {
		return r.awaitJudgement()
	}
	if errors.Is(err, ipam.ErrExhausted) {
		r.Events.Eventf(node, nil, corev1.EventTypeWarning, "FailedSubnetAllocation", "AllocateSubnet", "%v", err)
		return ctrl.Result{}, errors.Join(r.vacateUnlessNetwork(ctx, node.Name), r.setCondition(ctx, node, nil, err.Error()))
	} else if err != nil {
		return ctrl.Result{}, err
	}
	applied := r.apply(ctx, nn, plan)
	var reportErr error
	if !r.Zone.Elsewhere(nn) {
		reportErr = r.report(ctx, nn, applied, gateway, users)
	}
	if ovndb.IsPending(applied) {
		applied = nil // the engine retries by itself
	}
	untainted := r.removeTaint(ctx, node, nn)
	if err := errors.Join(applied, ignoreConflict(reportErr), ignoreConflict(untainted), r.setCondition(ctx, node, nn, "")); err != nil {
		return ctrl.Result{}, err
	}
	// A subnet that has no pod when it begins to leave is given up next.
	idle := len(nn.Spec.LeavingSubnets) > 0 && plan.GivesUp(nn.Spec, r.Addresses.Idle(node.Name))
	if reportErr != nil || untainted != nil || idle { // or the agent or kubelet has written meanwhile
		return ctrl.Result{RequeueAfter: trigger.FirstRetry}, nil
	}
	return ctrl.Result{}, nil
}

// wildcards returns what nodes observe, or nil.
func (r *Reconciler) wildcards(ctx context.Context, cn *networkv1alpha1.ClusterNetwork) (*networkv1alpha1.NodeWildcards, error) {
	names, err := r.Wildcards(ctx)
	if err != nil || len(names) == 0 {
		return nil, err
	}
	servers, err := kind.NameServers(ctx, r.Client, cn)
	return &networkv1alpha1.NodeWildcards{Names: names[:min(len(names), networkv1alpha1.MaxWildcards)], Nameservers: servers}, err
}

// protection returns what nodes do for the encryption of their tunnels.
func (r *Reconciler) protection(ctx context.Context, cn *networkv1alpha1.ClusterNetwork) (networkv1alpha1.TunnelProtection, error) {
	if cn.Spec.Encapsulation.Encryption != networkv1alpha1.EncryptionIPsec {
		return "", nil
	}
	var all networkv1alpha1.NodeNetworkList
	err := r.Client.List(ctx, &all)
	return facts.NodeProtection(cn.Spec.Encapsulation.Encryption, all.Items), err
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
// longer its own. A zone's operator does not know which nodes wait, and removes the rows of each node without a NodeNetwork.
func (r *Reconciler) HasNone(name string) bool {
	if r.Zone.Follows() {
		return true
	}
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
	delete(r.waitingForGateway, name)
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
	dropped, outdated := r.Addresses.SetNode(node.Name, node.Subnets, node.Leaving)
	if len(dropped) > 0 {
		r.AddressesLost.Publish(dropped)
	}
	if len(outdated) > 0 {
		r.PodsOutdated.Publish(outdated)
	}
}

// apply passes the node's subnets to Addresses and its rows to the database.
func (r *Reconciler) apply(ctx context.Context, nn *networkv1alpha1.NodeNetwork, plan facts.Plan) error {
	read, err := facts.ParseNodeNetwork(nn)
	if err != nil {
		return err
	}
	read.Multicast = plan.Multicast
	r.setAddresses(read)
	want := topology.NodeUnit(read)
	if r.Zone.Elsewhere(nn) {
		want = topology.Elsewhere(want)
	}
	return r.Database.Apply(ctx, want)
}
