package policyoracle

import (
	"maps"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/weft-network/weft/pkg/topology"
	"github.com/weft-network/weft/pkg/unit"
)

// compile does what the reconcilers do: it parses the policies, adds pods to the groups and sets that select them,
// and makes the units.
func compile(c *Cluster) ([]unit.Unit, error) {
	selectors := map[unit.Key]topology.PodSelector{}
	var groups, policies []unit.Unit
	for i := range c.Policies {
		facts, err := topology.ParseNetworkPolicy(&c.Policies[i], c.numbers)
		if err != nil {
			return nil, err
		}
		maps.Copy(selectors, facts.Selectors())
		policies = append(policies, topology.NetworkPolicyUnit(facts))
	}
	for _, policy := range c.clusterPolicies() {
		facts, err := topology.ParseClusterPolicy(policy, c.numbers, func(s labels.Selector) []netip.Addr {
			return topology.AddressesOfNodes(s, c.nodes())
		})
		if err != nil {
			return nil, err
		}
		maps.Copy(selectors, facts.Selectors())
		policies = append(policies, topology.ClusterPolicyUnit(facts))
	}
	keys := slices.Sorted(maps.Keys(selectors))
	for _, key := range keys {
		if key.Kind() == topology.KindPodGroup {
			groups = append(groups, topology.PodGroupUnit(key))
		} else {
			groups = append(groups, topology.PodSetUnit(key))
		}
	}
	below := fabric(c, func(pod *corev1.Pod, facts *topology.Pod) {
		for _, key := range keys {
			if selectors[key].Matches(c.selected(pod)) {
				facts.Selected = append(facts.Selected, key)
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

func (c *Cluster) numbers(s topology.PodSelector, port topology.NamedPort) []uint16 {
	var pods []topology.SelectedPod
	for i := range c.Pods {
		if topology.WantsPort(&c.Pods[i]) {
			pods = append(pods, c.selected(&c.Pods[i]))
		}
	}
	return topology.NumbersOf(s, port, pods)
}

func (c *Cluster) selected(pod *corev1.Pod) topology.SelectedPod {
	return topology.SelectedPod{Namespace: pod.Namespace,
		NamespaceLabels: labels.Set(c.namespace(pod.Namespace).Labels), Labels: pod.Labels,
		Ports: topology.NamedPorts(pod)}
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
