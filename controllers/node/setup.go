package node

import (
	"context"
	"maps"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/controllers/kind"
	"github.com/weft-network/weft/pkg/addresses/balance"
	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/process/trigger"
	"github.com/weft-network/weft/pkg/topology"
)

// workers is how many nodes are reconciled concurrently. Their writes share transactions.
const workers = 16

// Kinds returns the kind of nodes' units.
func Kinds(env *kind.Env) []*kind.Kind {
	r := &Reconciler{Client: env.Client, Live: env.Live, Database: env.Database, Addresses: env.Addresses,
		Events: env.Events, Triggers: env.Triggers,
		Floating: env.Floating, SubnetsSet: &env.SubnetsSet, AddressesLost: &env.AddressesLost, PodsOutdated: &env.PodsOutdated,
		Wildcards: func(ctx context.Context) ([]string, error) { return env.Wildcards(ctx) }, Zone: env.Zone,
		PodsLackAddress: func(node string) bool { return env.PodsLackAddress(node) }, // package pod sets it later
		OnSegments: func(ctx context.Context, node string) (map[networkv1alpha1.PhysicalNetworkName][]string, bool) {
			return env.OnSegments(ctx, node) // package podports sets it later
		},
		Begun: env.Begun}
	env.WildcardsChanged.Subscribe(func(struct{}) {
		for _, request := range r.allNodes(context.Background(), nil) {
			r.Triggers.Enqueue(topology.KindNode, request.NamespacedName)
		}
	})
	env.Detached.Subscribe(func(struct{}) {
		for _, request := range r.keeping(context.Background()) {
			r.Triggers.Enqueue(topology.KindNode, request)
		}
	})
	env.FloatingFreed.Subscribe(func(string) { r.wake("") })
	env.PortsFreed.Subscribe(func(netip.Addr) { r.wake("") })
	if !env.Zone.Follows() { // a follower chooses nothing
		env.NodeRestored.Subscribe(r.restored)
	}
	if origin, ok := kind.Origin[*Reconciler](env, topology.KindNode); ok {
		r.rememberFrom(origin)
	}
	env.HasNoNetwork = r.HasNone
	return []*kind.Kind{{
		Name: topology.KindNode, Workers: workers, Reconciler: r,
		Owner:   func() client.Object { return &corev1.Node{} },
		First:   func() client.ObjectList { return &corev1.NodeList{} },
		Indexes: []kind.Index{{Object: &networkv1alpha1.NodeNetwork{}, Field: ByClaim, Values: IndexByClaim}},
		Watches: []kind.Watch{
			kind.Of(&corev1.Node{}, trigger.Changed(nodeChanged)),
			kind.Of(&networkv1alpha1.NodeNetwork{}, trigger.Changed(networkChanged)),
			kind.Map(&networkv1alpha1.NodeNetwork{}, r.movers, predicate.Funcs{
				CreateFunc: func(event.CreateEvent) bool { return false }, UpdateFunc: trigger.Update(moveChanged)}),
			kind.Map(&networkv1alpha1.NodeNetwork{}, r.without, predicate.Funcs{
				CreateFunc: func(event.CreateEvent) bool { return false }, UpdateFunc: trigger.Update(subnetFreed)}),
			kind.Map(&networkv1alpha1.NodeNetwork{}, r.allNodes, predicate.Funcs{UpdateFunc: trigger.Update(protectionChanged),
				CreateFunc: func(event.CreateEvent) bool { return false }, DeleteFunc: hadProtection}),
			kind.Map(&networkv1alpha1.ClusterNetwork{}, r.allNodes, trigger.Changed(planChanged)),
			kind.Map(&networkv1alpha1.IPPool{}, r.without, balance.RangesChanged()),
			kind.Map(&corev1.Service{}, r.observers, kind.NameServersChanged()),
		},
	}}
}

// protectionChanged passes updates after which all nodes may require encryption, or must.
func protectionChanged(before, after *networkv1alpha1.NodeNetwork) bool {
	return after.Spec.Encryption != "" && (before.Spec.Encryption != after.Spec.Encryption ||
		facts.CanEncrypt(before) != facts.CanEncrypt(after))
}

// hadProtection passes the deletion of a node that may have been the last one without encryption.
func hadProtection(e event.DeleteEvent) bool {
	nn, ok := e.Object.(*networkv1alpha1.NodeNetwork)
	return !ok || nn.Spec.Encryption == networkv1alpha1.ProtectionAccepted
}

// without returns a request for each node that waits for a subnet.
func (r *Reconciler) without(context.Context, client.Object) (requests []reconcile.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for name := range r.waiting {
		requests = append(requests, reconcile.Request{NamespacedName: types.NamespacedName{Name: name}})
	}
	return requests
}

// observers returns a request for each node, if the nodes observe wildcards.
func (r *Reconciler) observers(ctx context.Context, o client.Object) []reconcile.Request {
	if names, err := r.Wildcards(ctx); err == nil && len(names) == 0 {
		return nil
	}
	return r.allNodes(ctx, o)
}

// subnetFreed passes an update in which a node gives up a subnet, which a node that waits may get.
func subnetFreed(before, after *networkv1alpha1.NodeNetwork) bool {
	return slices.ContainsFunc(before.Spec.PodSubnets, func(s networkv1alpha1.CIDR) bool {
		return !slices.Contains(after.Spec.PodSubnets, s)
	})
}

func (r *Reconciler) allNodes(ctx context.Context, _ client.Object) []reconcile.Request {
	return kind.Requests(ctx, r.Client, &corev1.NodeList{})
}

// nodeChanged passes changes of labels, of addresses, of our condition and of the startup taint, and that kubelet is silent. It ignores
// other heartbeats.
func nodeChanged(before, after *corev1.Node) bool {
	return !maps.Equal(before.Labels, after.Labels) || startupTaints(before) != startupTaints(after) ||
		!slices.Equal(facts.InternalIPs(before), facts.InternalIPs(after)) ||
		facts.IsSilent(before) != facts.IsSilent(after) || !equality.Semantic.DeepEqual(unavailable(before), unavailable(after))
}

func unavailable(node *corev1.Node) corev1.NodeCondition {
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeNetworkUnavailable {
			c.LastHeartbeatTime.Reset()
			return c
		}
	}
	return corev1.NodeCondition{}
}

// networkChanged passes changes of the spec, the chassis, the requested move, the gateway's change, the requested subnets and the health.
func networkChanged(before, after *networkv1alpha1.NodeNetwork) bool {
	return before.Generation != after.Generation || before.Status.Chassis != after.Status.Chassis ||
		facts.MoveState(before) != facts.MoveState(after) ||
		!equality.Semantic.DeepEqual(readyOf(before), readyOf(after)) ||
		!equality.Semantic.DeepEqual(fullOf(before), fullOf(after))
}

func fullOf(nn *networkv1alpha1.NodeNetwork) any {
	return meta.FindStatusCondition(nn.Status.Conditions, networkv1alpha1.ConditionSubnetsFull)
}

func readyOf(nn *networkv1alpha1.NodeNetwork) any {
	return meta.FindStatusCondition(nn.Status.Conditions, networkv1alpha1.ConditionReady)
}

// planChanged passes changes of the input for node subnets.
func planChanged(before, after *networkv1alpha1.ClusterNetwork) bool {
	return before.Generation != after.Generation || before.Status.MTU != after.Status.MTU ||
		networkv1alpha1.LossConfirmed(before) != networkv1alpha1.LossConfirmed(after) ||
		!facts.SameNetworks(before.Status.Networks, after.Status.Networks) ||
		!slices.Equal(relaysInUse(before.Status.Relays), relaysInUse(after.Status.Relays)) ||
		!slices.EqualFunc(before.Status.Zones, after.Status.Zones, sameForNodes)
}

// sameForNodes reports whether two states of a zone lead nodes to the same databases and relays.
func sameForNodes(a, b networkv1alpha1.ZoneStatus) bool {
	return a.Name == b.Name && a.Ready == b.Ready && slices.Equal(a.Addresses, b.Addresses) &&
		slices.Equal(relaysInUse(a.Relays), relaysInUse(b.Relays))
}

// relaysInUse returns the names of the relays that nodes use, and their addresses.
func relaysInUse(relays []networkv1alpha1.RelayStatus) (found []string) {
	for _, r := range relays {
		if r.State.InUse() {
			found = append(found, r.Node+" "+string(r.Address))
		}
	}
	return found
}
