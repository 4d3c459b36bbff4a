package invariant

import (
	"fmt"
	"math"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/ipam"
	"github.com/weft-network/weft/pkg/ovn/names"
	"github.com/weft-network/weft/pkg/ovn/nbdb"
	"github.com/weft-network/weft/pkg/topology"
	"github.com/weft-network/weft/pkg/unit"
)

// podInvariants returns the invariants of a pod and its port.
func podInvariants() []Invariant {
	return []Invariant{
		{"PodHasPort", "Every pod that needs a port has exactly one.", podHasPort},
		{"PodAddressInSubnet", "A pod's port has one MAC, and addresses of its node's subnets or its own.", podAddressInSubnet},
		{"PodReportsAddress", "A pod's status has the addresses of its port.", podReportsAddress},
		{"PortOnItsChassis", "Pods' ports and management ports request the chassis of their node.", portOnItsChassis},
	}
}

func nameOf(pod *corev1.Pod) string { return "Pod " + pod.Namespace + "/" + pod.Name }

func podHasPort(v *view) (found []Violation) {
	full := v.fullNodes()
	for key, pod := range v.pods {
		ports := v.owned[key]
		switch nn := v.networks[pod.Spec.NodeName]; {
		case len(ports) > 1:
			found = append(found, v.about(rowsAny(ports), "pod %s/%s has %d ports", pod.Namespace, pod.Name, len(ports)).of(nameOf(pod)))
		case len(ports) == 1:
			if wrong := v.wrongPlace(pod, ports[0]); wrong != "" {
				found = append(found, v.about([]any{ports[0]}, "port %s %s", ports[0].Name, wrong).of(nameOf(pod)))
			}
		case nn == nil || nn.Status.Chassis == "" || full[pod.Spec.NodeName] || v.isUnservable(pod, nn): // it waits
		default:
			found = append(found, Violation{Message: fmt.Sprintf("pod %s/%s has no port", pod.Namespace, pod.Name),
				Owners: []unit.Key{key}}.of(nameOf(pod)))
		}
	}
	return found
}

// wrongPlace describes an error of the place of a pod's only port, or returns "". It ignores a port that is on no
// switch.
func (v *view) wrongPlace(pod *corev1.Pod, port *nbdb.LogicalSwitchPort) string {
	if want, have := networkv1alpha1.InterfaceUID(pod), port.Options[names.InterfaceVersion]; want != have {
		return fmt.Sprintf("has the UID %s, but the pod has %s", have, want)
	}
	on := v.onSwitch[port.UUID]
	home := func(s *nbdb.LogicalSwitch) bool { return ours(s) && s.Name == names.NodeSwitch(pod.Spec.NodeName) }
	if len(on) > 0 && !slices.ContainsFunc(on, home) {
		return fmt.Sprintf("is on switch %s, but the pod is on node %s", on[0].Name, pod.Spec.NodeName)
	}
	return ""
}

// fullNodes returns the nodes without a free address in one of their families, or with leaving subnets only: these give no address.
func (v *view) fullNodes() map[string]bool {
	used := map[string][]netip.Addr{} // node -> addresses of ports there
	for key, pod := range v.pods {
		for _, port := range v.owned[key] {
			for _, element := range addressesOf(port) {
				used[pod.Spec.NodeName] = append(used[pod.Spec.NodeName], element.Addresses...)
			}
		}
	}
	full := map[string]bool{}
	for node, nn := range v.networks {
		free := map[bool]int64{} // is IPv4 -> addresses
		for _, subnet := range subnetsOf(nn) {
			if slices.Contains(nn.Spec.LeavingSubnets, networkv1alpha1.CIDR(subnet.String())) {
				continue
			}
			is4 := subnet.Addr().Is4()
			if free[is4] += ipam.Capacity(subnet); free[is4] < 0 { // of two IPv6 subnets
				free[is4] = math.MaxInt64
			}
			for _, address := range used[node] {
				if subnet.Contains(address) {
					free[is4]--
				}
			}
		}
		full[node] = len(free) == 0
		for _, addresses := range free {
			full[node] = full[node] || addresses <= 0
		}
	}
	return full
}

// subnetsOf reads the subnets of a node. It skips unreadable subnets, which the API server should have rejected.
func subnetsOf(nn *networkv1alpha1.NodeNetwork) []netip.Prefix {
	var subnets []netip.Prefix
	for _, cidr := range nn.Spec.PodSubnets {
		if subnet, err := cidr.Prefix(); err == nil {
			subnets = append(subnets, subnet)
		}
	}
	return subnets
}

func podAddressInSubnet(v *view) (found []Violation) {
	for key, pod := range v.pods {
		nn := v.networks[pod.Spec.NodeName]
		if nn == nil {
			continue
		}
		for _, port := range v.owned[key] {
			wrong := wrongAddress(port, subnetsOf(nn), v.heldBy(pod, networkv1alpha1.LocationOverlay))
			if wrong == "" && !v.outdated(pod) {
				wrong = missingAddress(port, nn)
			}
			if wrong != "" {
				found = append(found, v.about([]any{port}, "port %s %s", port.Name, wrong).of(nameOf(pod), "NodeNetwork "+nn.Name))
			}
		}
	}
	return found
}

// wrongAddress describes an error of the addresses of a pod's port, or returns "". The pod's floating addresses take the
// place of an address of the node's subnets.
func wrongAddress(port *nbdb.LogicalSwitchPort, subnets []netip.Prefix, floating []netip.Addr) string {
	elements := addressesOf(port)
	if len(port.Addresses) != 1 || len(elements) != 1 {
		return fmt.Sprintf("has addresses %q, want one MAC and its addresses", port.Addresses)
	}
	families, replaced := map[bool]int{}, map[bool]bool{}
	for _, address := range floating {
		replaced[address.Is4()] = true
		if !slices.Contains(elements[0].Addresses, address) {
			return fmt.Sprintf("has addresses %v without the pod's floating address %s", elements[0].Addresses, address)
		}
	}
	for _, address := range elements[0].Addresses {
		if slices.Contains(floating, address) {
			continue
		}
		if !slices.ContainsFunc(subnets, func(s netip.Prefix) bool { return ipam.IsPodAddress(s, address) }) {
			return fmt.Sprintf("has address %s, which no pod can have in %v", address, subnets)
		}
		families[address.Is4()]++
	}
	for _, subnet := range subnets {
		most := 1
		if replaced[subnet.Addr().Is4()] {
			most = 0
		}
		if n := families[subnet.Addr().Is4()]; n > most {
			return fmt.Sprintf("has %d addresses of the family of %s, want %d", n, subnet, most)
		}
	}
	if len(elements[0].Addresses) == 0 && len(subnets) > 0 {
		return "has no address"
	}
	return ""
}

// missingAddress describes a family in which a pod's port has no address although new pods on its node get one, or
// returns "".
func missingAddress(port *nbdb.LogicalSwitchPort, nn *networkv1alpha1.NodeNetwork) string {
	addresses := addressesOf(port)[0].Addresses
	for _, subnet := range subnetsOf(nn) {
		if !slices.Contains(nn.Spec.LeavingSubnets, networkv1alpha1.CIDR(subnet.String())) &&
			!slices.ContainsFunc(addresses, func(a netip.Addr) bool { return a.Is4() == subnet.Addr().Is4() }) {
			return fmt.Sprintf("has 0 addresses of the family of %s, want 1", subnet)
		}
	}
	return ""
}

// outdated reports whether ClusterNetwork's status lists a pod as older than its node's networks, or may have omitted it
// because the list is full, or because the pod is in a zone and has not reported its addresses. Such a pod lacks an address of a family
// that was added.
func (v *view) outdated(pod *corev1.Pod) bool {
	if nn := v.networks[pod.Spec.NodeName]; nn != nil && nn.Spec.Zone != "" && len(pod.Status.PodIPs) == 0 {
		return true
	}
	if v.ClusterNetwork == nil || v.ClusterNetwork.Status.OutdatedPods == nil {
		return v.ClusterNetwork == nil
	}
	pods := v.ClusterNetwork.Status.OutdatedPods
	return int(pods.Total) > len(pods.First) || slices.ContainsFunc(pods.First, func(p networkv1alpha1.OutdatedPod) bool {
		return p.Pod == pod.Namespace+"/"+pod.Name
	})
}

func podReportsAddress(v *view) (found []Violation) {
	for key, pod := range v.pods {
		for _, port := range v.owned[key] {
			var have []netip.Addr
			for _, element := range addressesOf(port) {
				have = append(have, element.Addresses...)
			}
			for _, ip := range pod.Status.PodIPs {
				if address, err := netip.ParseAddr(ip.IP); err != nil || !slices.Contains(have, address) {
					found = append(found, v.about([]any{port}, "pod %s/%s reports the address %s, its port has %v",
						pod.Namespace, pod.Name, ip.IP, have).of(nameOf(pod)))
				}
			}
		}
	}
	return found
}

func portOnItsChassis(v *view) (found []Violation) {
	for owner, ports := range v.owned {
		node := ""
		switch pod, requester := v.pods[owner], v.requester(owner); {
		case pod != nil:
			node = pod.Spec.NodeName
		case owner.Kind() == topology.KindPodPorts && requester != nil:
			node = requester.Spec.NodeName
		case owner.Kind() == topology.KindNode:
			node = owner.Name()
		}
		nn := v.networks[node]
		if nn == nil || nn.Status.Chassis == "" { // ports keep the previous chassis until the agent reports to a recreated NodeNetwork
			continue
		}
		for _, port := range ports {
			if have := port.Options[names.RequestedChassis]; port.Type == "" && have != nn.Status.Chassis {
				found = append(found, v.about([]any{port}, "port %s requests chassis %q, node %s has %q", port.Name,
					have, node, nn.Status.Chassis).of("NodeNetwork "+node))
			}
		}
	}
	return found
}

func rowsAny[T any](rows []*T) []any {
	all := make([]any, 0, len(rows))
	for _, row := range rows {
		all = append(all, row)
	}
	return all
}
