package invariant

import (
	"fmt"
	"maps"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/ovn/nbdb"
	"github.com/weft-network/weft/pkg/ovn/ovnexpr"
	"github.com/weft-network/weft/pkg/topology"
	"github.com/weft-network/weft/pkg/unit"
)

// networkPolicyInvariants returns the invariants of NetworkPolicies.
func networkPolicyInvariants() []Invariant {
	return []Invariant{
		{"PolicyOfSelected", "Each selector's group or sets have exactly the selected pods.", policyOfSelected},
		{"PolicyHasRules", "Every NetworkPolicy, and MultiNetworkPolicy of a Network, has ACLs.", policyHasRules},
	}
}

// selectedPods are the pods that need a port, by namespace.
type selectedPods map[string][]selectedPod

type selectedPod struct {
	facts.SelectedPod
	key unit.Key
	// away are the addresses of a pod elsewhere, which has no port.
	away []netip.Addr
}

func (v *view) selectedPods() selectedPods {
	all := selectedPods{}
	for key, pod := range v.pods {
		all[pod.Namespace] = append(all[pod.Namespace], selectedPod{v.selected(pod), key, nil})
	}
	for key, pod := range v.away {
		all[pod.Namespace] = append(all[pod.Namespace], selectedPod{v.selected(pod), key, statusAddresses(pod)})
	}
	return all
}

// statusAddresses returns the addresses in a pod's status.
func statusAddresses(pod *corev1.Pod) (all []netip.Addr) {
	for _, ip := range pod.Status.PodIPs {
		if address, err := netip.ParseAddr(ip.IP); err == nil {
			all = append(all, address)
		}
	}
	return all
}

func (v *view) selected(pod *corev1.Pod) facts.SelectedPod {
	return facts.SelectedPod{Namespace: pod.Namespace, Name: pod.Name, NamespaceLabels: v.Namespaces[pod.Namespace],
		Labels: pod.Labels, Ports: facts.NamedPorts(pod)}
}

// each calls visit for the pods of a selector, whichever networks they are on.
func (p selectedPods) each(selector facts.PodSelector, visit func(selectedPod)) {
	selector = selector.On("")
	for namespace, pods := range p {
		if selector.Namespace != "" && selector.Namespace != namespace {
			continue
		}
		for _, pod := range pods {
			if selector.Matches(pod.SelectedPod) {
				visit(pod)
			}
		}
	}
}

// policySelectors returns the groups and sets that policies, EgressQoSes and namespaces with multicast use. Unreadable
// parts of a policy are left out.
func (v *view) policySelectors(pods selectedPods) map[unit.Key]facts.PodSelector {
	used := map[unit.Key]facts.PodSelector{}
	numbers := func(selector facts.PodSelector, port facts.NamedPort) []uint16 {
		var selected []facts.SelectedPod
		pods.each(selector, func(pod selectedPod) { selected = append(selected, pod.SelectedPod) })
		return facts.NumbersOf(selector, port, selected)
	}
	for i := range v.NetworkPolicies {
		read, _ := facts.ParseNetworkPolicy(&v.NetworkPolicies[i], numbers)
		maps.Copy(used, topology.NetworkPolicySelectors(read))
	}
	for i := range v.EgressQoSes {
		read, _ := facts.ParseEgressQoS(&v.EgressQoSes[i], nil)
		maps.Copy(used, topology.EgressQoSSelectors(read))
	}
	for _, namespace := range v.Multicast {
		maps.Copy(used, topology.MulticastSelectors(namespace))
	}
	for _, p := range v.MultiNetworkPolicies {
		read, _ := facts.ParseMultiNetworkPolicy(p.Policy, p.Networks, numbers)
		maps.Copy(used, topology.MultiNetworkPolicySelectors(read))
	}
	for _, read := range v.clusterPolicies(numbers) {
		maps.Copy(used, topology.ClusterPolicySelectors(read))
	}
	return used
}

// clusterPolicies reads the cluster-wide policies.
func (v *view) clusterPolicies(numbers facts.Numbers) (all []facts.ClusterPolicy) {
	if numbers == nil {
		numbers = func(facts.PodSelector, facts.NamedPort) []uint16 { return nil }
	}
	for _, policy := range v.ClusterPolicies {
		read, _ := facts.ParseClusterPolicy(policy, numbers, func(nodes labels.Selector) []netip.Addr {
			return facts.AddressesOfNodes(nodes, v.Nodes)
		})
		all = append(all, read)
	}
	return all
}

func policyOfSelected(v *view) []Violation {
	want, have, pods := map[string]bool{}, map[string]bool{}, v.selectedPods()
	for key, selector := range v.policySelectors(pods) {
		want[string(key)] = true
		pods.each(selector, func(pod selectedPod) {
			for _, port := range v.portsOn(selector.Network, pod) {
				for _, element := range elementsIn(key, port) {
					want[fmt.Sprint(key, " ", element)] = true
				}
			}
			for _, address := range pod.away {
				if key.Kind() == topology.KindPodSet && selector.Network == "" {
					want[fmt.Sprint(key, " ", address)] = true
				}
			}
		})
	}
	for _, group := range rowsIn[nbdb.PortGroup](v.Northbound, nbdb.PortGroupTable) {
		if owner := ownerOf(group); owner.Kind() == topology.KindPodGroup {
			have[string(owner)] = true
			for _, port := range group.Ports {
				have[fmt.Sprint(owner, " ", port)] = true
			}
		}
	}
	for _, set := range rowsIn[nbdb.AddressSet](v.Northbound, nbdb.AddressSetTable) {
		if owner := ownerOf(set); owner.Kind() == topology.KindPodSet {
			have[string(owner)] = true
			for _, address := range set.Addresses {
				have[fmt.Sprint(owner, " ", address)] = true
			}
		}
	}
	return differing("group or set, or its element,", want, have)
}

// portsOn returns a pod's ports on a Network, or its port on the cluster network if network is empty.
func (v *view) portsOn(network string, pod selectedPod) (ports []*nbdb.LogicalSwitchPort) {
	if network == "" {
		if ports = v.owned[pod.key]; len(ports) == 1 && len(ports[0].Addresses) == 1 {
			return ports
		}
		return nil
	}
	for _, port := range v.owned[topology.PodPortsKey(pod.Namespace, pod.Name)] {
		if row, ok, err := topology.ParsePodPortsRow(port); ok && err == nil && row.Network == network {
			ports = append(ports, port)
		}
	}
	return ports
}

// elementsIn returns a pod's elements in a group or set.
func elementsIn(key unit.Key, port *nbdb.LogicalSwitchPort) (elements []string) {
	if key.Kind() == topology.KindPodGroup {
		return []string{port.UUID}
	}
	address, err := ovnexpr.ParsePortAddress(port.Addresses[0])
	if err != nil {
		return nil
	}
	for _, a := range address.Addresses {
		elements = append(elements, a.String())
	}
	return elements
}

func policyHasRules(v *view) (found []Violation) {
	have := map[unit.Key]bool{}
	for _, acl := range rowsIn[nbdb.ACL](v.Northbound, nbdb.ACLTable) {
		have[ownerOf(acl)] = true
	}
	var keys []unit.Key
	for i := range v.NetworkPolicies {
		keys = append(keys, topology.NetworkPolicyKey(v.NetworkPolicies[i].Namespace, v.NetworkPolicies[i].Name))
	}
	for _, p := range v.MultiNetworkPolicies {
		if len(p.Networks) > 0 {
			keys = append(keys, topology.MultiNetworkPolicyKey(p.Policy.Namespace, p.Policy.Name))
		}
	}
	for _, key := range keys {
		if !have[key] {
			found = append(found, Violation{Message: fmt.Sprintf("%s has no ACL", key), Owners: []unit.Key{key}})
		}
	}
	return found
}
