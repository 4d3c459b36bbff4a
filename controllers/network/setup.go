// Package network reconciles Networks, on which pods have secondary interfaces: it makes their switches and routers, and the
// NetworkAttachmentDefinitions by which pods name them. The pods' ports are package podports'.
package network

import (
	"context"
	"slices"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/controllers/kind"
	"github.com/weft-network/weft/pkg/process/trigger"
	"github.com/weft-network/weft/pkg/topology"
)

// workers is how many nodes' parts of Networks are reconciled at once.
const workers = 4

// Kinds returns the kinds of Networks and of nodes' parts of them.
func Kinds(env *kind.Env) []*kind.Kind {
	attached := func(network string) (map[string]int, bool) { return env.Attached(network) } // package podports sets it later
	r := &Reconciler{Client: env.Client, Database: env.Database, Events: env.Events, Attached: attached, Addresses: env.NetworkAddresses}
	nodes := &Nodes{Client: env.Client, Database: env.Database}
	return []*kind.Kind{r.kind(), nodes.kind()}
}

func (r *Reconciler) kind() *kind.Kind {
	return &kind.Kind{
		Name: topology.KindPodNetwork, Reconciler: r,
		Owner: func() client.Object { return &networkv1alpha1.Network{} },
		Watches: append([]kind.Watch{
			// A status that was computed beside an older one of the cache is computed again when the cache has it.
			kind.Of(&networkv1alpha1.Network{}),
			kind.Map(&nadv1.NetworkAttachmentDefinition{}, networkOf),
			kind.Map(&networkv1alpha1.ClusterNetwork{}, r.all, trigger.SpecChanged()),
			kind.Map(&networkv1alpha1.NodeNetwork{}, r.all, trigger.Changed(linksChanged)),
			kind.Map(&corev1.Namespace{}, r.all, trigger.Changed(trigger.LabelsChanged)).MetadataOnly(),
		}, slices.Concat(kind.SegmentHostWatches(r.onSegments), kind.TranslatedWatches(r.onSegments))...),
	}
}

// networkOf returns a request for the Network that a definition was made for, or that has its name.
func networkOf(_ context.Context, definition client.Object) []reconcile.Request {
	name := definition.GetLabels()[networkv1alpha1.NetworkLabel]
	if name == "" {
		name = definition.GetName()
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: name}}}
}

// all returns a request for each Network.
func (r *Reconciler) all(ctx context.Context, _ client.Object) []reconcile.Request {
	return kind.Requests(ctx, r.Client, &networkv1alpha1.NetworkList{})
}

// onSegments returns a request for each Localnet Network.
func (r *Reconciler) onSegments(ctx context.Context, _ client.Object) []reconcile.Request {
	return kind.RequestsIf(ctx, r.Client, &networkv1alpha1.NetworkList{}, func(n *networkv1alpha1.Network) bool {
		return n.Spec.Topology == networkv1alpha1.TopologyLocalnet
	})
}

// linksChanged passes changes of the links on which the MTU in effect depends.
func linksChanged(before, after *networkv1alpha1.NodeNetwork) bool {
	return before.Status.LinkMTU != after.Status.LinkMTU || before.Status.EncapIP != after.Status.EncapIP ||
		!equality.Semantic.DeepEqual(before.Status.PhysicalNetworks, after.Status.PhysicalNetworks)
}

func networks(ctx context.Context, c client.Client) []networkv1alpha1.Network {
	var list networkv1alpha1.NetworkList
	if err := c.List(ctx, &list); err != nil {
		return nil // the cache answers; it has no errors to give once it is in sync
	}
	return list.Items
}

func (r *Nodes) kind() *kind.Kind {
	return &kind.Kind{
		Name: topology.KindPodNetworkNode, Controller: "podnetwork-nodes", Workers: workers, Reconciler: r, Shared: true,
		Watches: []kind.Watch{
			kind.Map(&networkv1alpha1.Network{}, r.onEachNode, trigger.SpecChanged()),
			kind.Map(&networkv1alpha1.NodeNetwork{}, r.ofEachNetwork, trigger.Changed(idChanged)),
		},
	}
}

// onEachNode returns a request for each node's part of a Network with a switch for each node.
func (r *Nodes) onEachNode(ctx context.Context, o client.Object) (all []reconcile.Request) {
	if n, ok := o.(*networkv1alpha1.Network); !ok || n.Spec.Topology != networkv1alpha1.TopologyLayer3 {
		return nil
	}
	var nodes networkv1alpha1.NodeNetworkList
	if err := r.Client.List(ctx, &nodes); err != nil {
		return nil
	}
	for i := range nodes.Items {
		all = append(all, request(o.GetName(), nodes.Items[i].Name))
	}
	return all
}

// ofEachNetwork returns a request for a node's part of each Network that has one.
func (r *Nodes) ofEachNetwork(ctx context.Context, node client.Object) (all []reconcile.Request) {
	for _, n := range networks(ctx, r.Client) {
		if n.Spec.Topology == networkv1alpha1.TopologyLayer3 {
			all = append(all, request(n.Name, node.GetName()))
		}
	}
	return all
}

func request(network, node string) reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{Namespace: network, Name: node}}
}

// idChanged passes changes of the number from which the node's subnets follow.
func idChanged(before, after *networkv1alpha1.NodeNetwork) bool {
	return before.Spec.NodeID != after.Spec.NodeID
}
