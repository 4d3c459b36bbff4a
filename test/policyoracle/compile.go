package policyoracle

import (
	"maps"
	"net/netip"
	"slices"

	"github.com/weft-network/weft/pkg/facts"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/weft-network/weft/pkg/topology"
	"github.com/weft-network/weft/pkg/unit"
)

// compile does what the reconcilers do: it parses the policies, adds pods to the groups and sets that select them,
// and makes the units.
func compile(c *Cluster) ([]unit.Unit, error) {
	selectors := map[unit.Key]facts.PodSelector{}
	var groups, policies []unit.Unit
	for i := range c.Policies {
		read, err := facts.ParseNetworkPolicy(&c.Policies[i], c.numbers)
		if err != nil {
			return nil, err
		}
		maps.Copy(selectors, topology.NetworkPolicySelectors(read))
		policies = append(policies, topology.NetworkPolicyUnit(read))
	}
	for _, policy := range c.clusterPolicies() {
		read, err := facts.ParseClusterPolicy(policy, c.numbers, func(s labels.Selector) []netip.Addr {
			return facts.AddressesOfNodes(s, c.nodes())
		})
		if err != nil {
			return nil, err
		}
		maps.Copy(selectors, topology.ClusterPolicySelectors(read))
		policies = append(policies, topology.ClusterPolicyUnit(read))
	}
	keys := slices.Sorted(maps.Keys(selectors))
	for _, key := range keys {
		if key.Kind() == topology.KindPodGroup {
			groups = append(groups, topology.PodGroupUnit(key))
		} else {
			groups = append(groups, topology.PodSetUnit(key))
		}
	}
	below := fabric(c, func(pod *corev1.Pod, built *topology.Pod) {
		for _, key := range keys {
			if selectors[key].Matches(c.selected(pod)) {
				built.Selected = append(built.Selected, key)
			}
		}
	})
	return slices.Concat(below, groups, policies), nil
}

func (c *Cluster) clusterPolicies() (all []metav1.Object) {
	for i := range c.ClusterPolicies {
		all = append(all, &c.ClusterPolicies[i])
	}
	for i := range c.AdminPolicies {
		all = append(all, &c.AdminPolicies[i])
	}
	for i := range c.BaselinePolicies {
		all = append(all, &c.BaselinePolicies[i])
	}
	return all
}

func (c *Cluster) numbers(s facts.PodSelector, port facts.NamedPort) []uint16 {
	var pods []facts.SelectedPod
	for i := range c.Pods {
		if facts.WantsPort(&c.Pods[i]) {
			pods = append(pods, c.selected(&c.Pods[i]))
		}
	}
	return facts.NumbersOf(s, port, pods)
}

func (c *Cluster) selected(pod *corev1.Pod) facts.SelectedPod {
	return facts.SelectedPod{Namespace: pod.Namespace,
		NamespaceLabels: labels.Set(c.namespace(pod.Namespace).Labels), Labels: pod.Labels,
		Ports: facts.NamedPorts(pod)}
}

// nodes returns the cluster's nodes as the API server has them.
func (c *Cluster) nodes() (nodes []corev1.Node) {
	for _, n := range c.Nodes {
		node := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: n.Name, Labels: n.Labels}}
		for _, a := range n.Addresses {
			node.Status.Addresses = append(node.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: a.String()})
		}
		nodes = append(nodes, node)
	}
	return nodes
}
