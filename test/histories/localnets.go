package histories

import (
	"context"
	"math/rand/v2"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/ovn/ovnexpr"
	"github.com/weft-network/weft/pkg/topology"
	"github.com/weft-network/weft/pkg/unit"
)

// segments are the specs of Localnet Networks: with addresses and a VLAN, with pods that configure themselves, and through the bridge of
// the nodes' gateways.
var segments = map[string]networkv1alpha1.NetworkSpec{
	"segment":        localnet("dc", 100, "10.100.0.0/29", "fd00:100::/64"),
	"segment-bare":   localnet("dc", 0),
	"segment-shared": localnet(networkv1alpha1.GatewayPhysicalNetwork, 200, "10.100.0.0/24"),
}

func localnet(physical networkv1alpha1.PhysicalNetworkName, vlan int32, cidrs ...networkv1alpha1.CIDR) networkv1alpha1.NetworkSpec {
	spec := layer2(cidrs...)
	spec.Topology, spec.PhysicalNetwork, spec.VLAN = networkv1alpha1.TopologyLocalnet, physical, vlan
	return spec
}

// localnetChoices are the steps of Localnet Networks, drawn separately from the others.
var localnetChoices = []choice{
	{8, func(r *rand.Rand) Step {
		return Step{Do: "podnetwork", Name: aNetwork(r), What: oneOf(r, "segment", "segment", "segment-bare", "segment-shared"), N: r.IntN(100)}
	}},
	{3, func(r *rand.Rand) Step { return Step{Do: "delete-podnetwork", Name: aNetwork(r)} }},
	{3, func(r *rand.Rand) Step {
		return Step{Do: "change-podnetwork", Name: aNetwork(r), What: "vlan", N: r.IntN(3)}
	}},
	{5, func(r *rand.Rand) Step { return Step{Do: "physical", What: oneOf(r, "all", "all", "labelled", "none")} }},
	{12, func(r *rand.Rand) Step {
		return Step{Do: "connect", Name: aNode(r), What: oneOf(r, "ready", "ready", "ready", "lost", "silent")}
	}},
	{3, func(r *rand.Rand) Step {
		return Step{Do: "tag-node", Name: aNode(r), What: oneOf(r, "red", "blue", "no")}
	}},
	{10, func(r *rand.Rand) Step { return Step{Do: "requester", Name: aPod(r), Node: aNode(r), N: aRequest(r)} }},
	{2, func(r *rand.Rand) Step {
		return Step{Do: "delay", Name: oneOf(r, podNetworks, "nodenetworks", "clusternetworks")}
	}},
	{2, func(r *rand.Rand) Step {
		return Step{Do: "deliver", Name: oneOf(r, podNetworks, "nodenetworks", "clusternetworks")}
	}},
	{2, func(*rand.Rand) Step { return Step{Do: "crash"} }},
}

// withLocalnets inserts steps of Localnet Networks into a third of the histories. Half of these begin with a segment.
func withLocalnets(p Plan) Plan {
	r := rand.New(rand.NewPCG(p.Seed, 14))
	if r.IntN(3) > 0 {
		return p
	}
	if r.IntN(2) == 0 {
		p.Steps = slices.Insert(p.Steps, 0, Step{Do: "podnetwork", Name: aNetwork(r), What: "segment", N: r.IntN(100)})
	}
	return sprinkled(p, r, 10+r.IntN(15), localnetChoices)
}

// doLocalnet executes steps of administrators who connect nodes with segments, and of the nodes' agents.
func (w *world) doLocalnet(ctx context.Context, s Step) (handled bool, err error) {
	switch s.Do {
	case "physical":
		return true, w.changeNetwork(ctx, func(cn *networkv1alpha1.ClusterNetwork) { cn.Spec.PhysicalNetworks = physicalOf(s.What) })
	case "connect":
		return true, w.connect(ctx, s)
	}
	return false, nil
}

// physicalOf returns the physical networks of a ClusterNetwork: of all nodes, of nodes with a label, or none.
func physicalOf(what string) []networkv1alpha1.PhysicalNetwork {
	dc := networkv1alpha1.PhysicalNetwork{Name: "dc", Link: "eth1"}
	switch what {
	case "none":
		return nil
	case "labelled":
		dc.NodeSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"team": "red"}}
	}
	return []networkv1alpha1.PhysicalNetwork{dc}
}

// connect reports a node's connections with segments, as its agent does.
func (w *world) connect(ctx context.Context, s Step) error {
	w.reached[s.Name] = w.reached[s.Name] || s.What == "ready"
	for {
		nn := &networkv1alpha1.NodeNetwork{}
		if err := w.api.Get(ctx, types.NamespacedName{Name: s.Name}, nn); err != nil {
			return client.IgnoreNotFound(err)
		}
		patch := client.MergeFromWithOptions(nn.DeepCopy(), client.MergeFromWithOptimisticLock{})
		nn.Status.PhysicalNetworks = nil
		for _, name := range []networkv1alpha1.PhysicalNetworkName{"dc", networkv1alpha1.GatewayPhysicalNetwork} {
			status := networkv1alpha1.NodePhysicalNetworkStatus{Name: name, Ready: s.What == "ready"}
			if !status.Ready {
				status.Message = "link eth1: the node has no such link"
			}
			if s.What != "silent" {
				nn.Status.PhysicalNetworks = append(nn.Status.PhysicalNetworks, status)
			}
		}
		if err := w.api.Status().Patch(ctx, nn, patch); !apierrors.IsConflict(err) {
			return client.IgnoreNotFound(err)
		}
	}
}

// apart reports whether an attachment's node does not reach the physical network of a Network.
func (o *oracle) apart(a attachment) bool {
	n := o.podNetworks[a.network]
	if n == nil || n.Spec.Topology != networkv1alpha1.TopologyLocalnet {
		return false
	}
	return !slices.ContainsFunc(o.networks[a.node.Name].Status.PhysicalNetworks, func(s networkv1alpha1.NodePhysicalNetworkStatus) bool {
		return s.Name == n.Spec.PhysicalNetwork && s.Ready
	})
}

// segmentsOf returns a function that reports whether pods of a node have ports on a physical network.
func (o *oracle) segmentsOf(node string) func(networkv1alpha1.PhysicalNetworkName) bool {
	used := map[networkv1alpha1.PhysicalNetworkName]bool{}
	for i := range o.pods {
		pod := &o.pods[i]
		for _, r := range o.rows["Logical_Switch_Port"] {
			owner, n := unit.Key(ownerOf(r)), o.podNetworks[mapOf(r["external_ids"])[ovnexpr.NetworkKey]]
			if pod.Spec.NodeName == node && owner == topology.PodPortsKey(pod.Namespace, pod.Name) && n != nil {
				used[n.Spec.PhysicalNetwork] = true
			}
		}
	}
	return func(name networkv1alpha1.PhysicalNetworkName) bool { return used[name] }
}

// leaves reports whether an attachment's node keeps the physical network of a Network only for the pods that have it.
func (o *oracle) leaves(a attachment) bool {
	n := o.podNetworks[a.network]
	return n != nil && slices.ContainsFunc(o.networks[a.node.Name].Spec.PhysicalNetworks, func(p networkv1alpha1.NodePhysicalNetwork) bool {
		return p.Name == n.Spec.PhysicalNetwork && p.Leaving
	})
}

// checkReached checks that a port on a segment that its node does not reach is from a time when the node reached one, or when
// the Network had another topology. A Network can be recreated as a Localnet before the operator has seen that it was deleted.
func (o *oracle) checkReached(a attachment) {
	if !o.reached[a.node.Name] && !o.overlaid[a.network] {
		o.complain("pod %s/%s has a port for %s, and node %s never reached the segment", a.pod.Namespace, a.pod.Name, a.request, a.node.Name)
	}
}

// isConnected reports whether the ClusterNetwork has the physical network of a Network.
func (o *oracle) isConnected(n *networkv1alpha1.Network) bool {
	if n.Spec.Topology != networkv1alpha1.TopologyLocalnet || n.Spec.PhysicalNetwork == networkv1alpha1.GatewayPhysicalNetwork {
		return true
	}
	return slices.ContainsFunc(o.cn.Spec.PhysicalNetworks, func(p networkv1alpha1.PhysicalNetwork) bool {
		return p.Name == n.Spec.PhysicalNetwork
	})
}
