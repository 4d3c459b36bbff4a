package histories

import (
	"errors"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/ipam"
)

// checkNetwork checks that a node's assignment is unique and complete.
func (o *oracle) checkNetwork(nn *networkv1alpha1.NodeNetwork) {
	var others []networkv1alpha1.NodeNetworkSpec
	for name, other := range o.networks {
		if name == nn.Name {
			continue
		}
		others = append(others, other.Spec)
		if other.Spec.NodeID == nn.Spec.NodeID {
			o.complain("nodes %s and %s both have ID %d", name, nn.Name, nn.Spec.NodeID)
		}
		for _, subnet := range subnetsOf(nn) {
			for _, theirs := range subnetsOf(other) {
				if subnet.Overlaps(theirs) {
					o.complain("subnet %s of node %s overlaps %s of node %s", subnet, nn.Name, theirs, name)
				}
			}
		}
	}
	gateway, err := facts.NodeGateway(o.cn.Spec.Gateway, nil)
	if err != nil {
		o.complain("ClusterNetwork: %w", err)
	}
	var node labels.Set
	if present := o.nodes[nn.Name]; present != nil {
		node = present.Labels
	}
	physical, err := facts.NodePhysicalNetworks(o.cn.Spec.PhysicalNetworks, node)
	if err != nil {
		o.complain("ClusterNetwork: %w", err)
	}
	var all []networkv1alpha1.NodeNetwork
	for _, other := range o.networks {
		all = append(all, *other)
	}
	zone, databases := facts.NodeZone(o.cn, node, nn.Spec)
	settings := facts.Settings{Zone: zone, Databases: databases, Zoned: len(o.cn.Spec.Zones) > 0,
		MTU: o.cn.Status.MTU, Encapsulation: o.cn.Spec.Encapsulation, Gateway: gateway,
		PhysicalNetworks: physical, PhysicalUsed: o.segmentsOf(nn.Name),
		Encryption: facts.NodeProtection(o.cn.Spec.Encapsulation.Encryption, all),
		Wildcards:  o.wildcards()}
	want, err := facts.NodeSpec(nn.Spec, o.plan, others, settings)
	if errors.Is(err, ipam.ErrExhausted) {
		err = nil // the network of its subnet was removed, and the others have no room
	}
	if err != nil || !equality.Semantic.DeepEqual(want, nn.Spec) {
		o.complain("NodeNetwork %s has spec %+v, want %+v (%v)", nn.Name, nn.Spec, want, err)
	}
}

func subnetsOf(nn *networkv1alpha1.NodeNetwork) (found []netip.Prefix) {
	for _, cidr := range nn.Spec.PodSubnets {
		if prefix, err := cidr.Prefix(); err == nil {
			found = append(found, prefix)
		}
	}
	return found
}

// checkReports checks what operators report: of the whole cluster by the operator that decides, and of its own pods by each.
func (o *oracle) checkReports() {
	if o.decides() {
		o.checkStatus()
	}
	for i := range o.pods {
		o.checkRecord(&o.pods[i])
	}
}

// checkStatus checks the status of the ClusterNetwork and of all other objects.
func (o *oracle) checkStatus() {
	s := o.cn.Status
	if s.ObservedGeneration != o.cn.Generation {
		o.complain("ClusterNetwork's status is of generation %d, the spec has %d", s.ObservedGeneration, o.cn.Generation)
	}
	if int(s.Nodes.Total) != len(o.nodes) {
		o.complain("ClusterNetwork counts %d nodes of %d", s.Nodes.Total, len(o.nodes))
	}
	ready := 0
	for name := range o.nodes {
		if nn := o.networks[name]; nn != nil && meta.IsStatusConditionTrue(nn.Status.Conditions, networkv1alpha1.ConditionReady) {
			ready++
		}
	}
	if int(s.Nodes.Ready) != ready {
		o.complain("ClusterNetwork counts %d ready nodes of %d", s.Nodes.Ready, ready)
	}
	if want := o.mtu(); s.MTU != want {
		o.complain("ClusterNetwork has MTU %d, want %d", s.MTU, want)
	}
	if len(s.Addresses) != len(o.plan.Clusters) {
		o.complain("ClusterNetwork counts addresses of %d networks of %d", len(s.Addresses), len(o.plan.Clusters))
		return
	}
	for i, cluster := range o.plan.Clusters {
		if least, most := o.countIn(cluster.CIDR); s.Addresses[i].Used < least || s.Addresses[i].Used > most {
			o.complain("ClusterNetwork counts %d addresses in use in %s, want %d to %d", s.Addresses[i].Used, cluster.CIDR, least, most)
		}
	}
	for name, node := range o.nodes {
		o.checkCondition(name, node)
		if nn := o.networks[name]; nn != nil {
			o.checkTopology(nn)
		}
	}
	o.checkFirewalls()
	o.checkQoS()
	o.checkRoutes()
	o.checkLeaving()
	o.checkClusterPolicies()
	o.checkPodNetworks()
	o.checkClaims(o.addressed)
	o.checkFloating()
}

func (o *oracle) mtu() int32 {
	smallest := int32(math.MaxInt32)
	for _, nn := range o.networks {
		if nn.Status.LinkMTU != 0 {
			smallest = min(smallest, networkv1alpha1.PodMTU(nn.Status.LinkMTU, nn.Status.EncapIP, o.cn.Spec.Encapsulation.Encryption))
		}
	}
	switch wanted, former := o.cn.Spec.MTU, o.cn.Status.MTU; {
	case wanted != 0 && wanted <= smallest:
		return wanted
	case wanted != 0 && former <= smallest && former != 0:
		return former // it cannot be known whether it was another one
	case smallest == math.MaxInt32:
		return 0
	}
	return smallest
}

// checkCondition checks that a node is schedulable if, and only if, its agent reports ready.
func (o *oracle) checkCondition(name string, node *corev1.Node) {
	want := corev1.ConditionTrue
	if nn := o.networks[name]; nn != nil && meta.IsStatusConditionTrue(nn.Status.Conditions, networkv1alpha1.ConditionReady) {
		want = corev1.ConditionFalse
	}
	i := slices.IndexFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool { return c.Type == corev1.NodeNetworkUnavailable })
	if i < 0 || node.Status.Conditions[i].Status != want {
		o.complain("node %s has conditions %+v, want %s %s", name, node.Status.Conditions, corev1.NodeNetworkUnavailable, want)
	}
}

// checkTopology checks that a NodeNetwork's condition reports to the agent that the node's rows are in the database.
func (o *oracle) checkTopology(nn *networkv1alpha1.NodeNetwork) {
	c := meta.FindStatusCondition(nn.Status.Conditions, networkv1alpha1.ConditionTopologyReady)
	if c == nil || c.Status != metav1.ConditionTrue || c.ObservedGeneration != nn.Generation {
		o.complain("NodeNetwork %s of generation %d has condition %s %+v", nn.Name, nn.Generation,
			networkv1alpha1.ConditionTopologyReady, c)
	}
}

// checkRecord checks that a pod that requests its VIF record has the record of its port.
func (o *oracle) checkRecord(pod *corev1.Pod) {
	requested := pod.Annotations[networkv1alpha1.PodRecordAnnotation] == "true" || o.recorded[pod.Namespace] ||
		o.cn.Spec.PodRecord == networkv1alpha1.PodRecordAlways
	nn := o.networks[pod.Spec.NodeName]
	port, ok := findPort(o.rows, pod)
	if !requested || !ok || nn == nil || nn.Spec.MTU == 0 || nn.Status.Chassis == "" || !hasOwnInterface(pod) {
		return
	}
	record := pod.Annotations[networkv1alpha1.PodNetworksAnnotation]
	if mtu := fmt.Sprintf(`"mtu":%d`, nn.Spec.MTU); !strings.Contains(record, mtu) {
		o.complain("the record of pod %s/%s lacks %s: %s", pod.Namespace, pod.Name, mtu, record)
	}
	for _, a := range port.addresses {
		if !strings.Contains(record, `"`+a.String()+"/") {
			o.complain("the record of pod %s/%s lacks %s: %s", pod.Namespace, pod.Name, a, record)
		}
	}
}
