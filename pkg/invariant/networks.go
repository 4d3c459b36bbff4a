package invariant

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/ovn/names"
	"github.com/weft-network/weft/pkg/ovn/nbdb"
	"github.com/weft-network/weft/pkg/ovn/ovnexpr"
	"github.com/weft-network/weft/pkg/topology"
	"github.com/weft-network/weft/pkg/unit"
)

// requestedNetworks is the annotation of a pod that requests networks. Package networks, which reads it, depends on a client.
const requestedNetworks = "k8s.v1.cni.cncf.io/networks"

// networkInvariants returns the invariants of Networks and of pods' ports on them.
func networkInvariants() []Invariant {
	return []Invariant{
		{"NetworkPortOfPod", "Every port on a Network has the UID and the switch of its pod.", networkPortOfPod},
		{"OnePortPerInterface", "No pod has two ports on Networks for one interface.", onePortPerInterface},
		{"AttachmentsAreCounted", "A Network's status counts its ports.", attachmentsAreCounted},
	}
}

// requester returns the pod of a unit of ports on Networks, or nil if no pod requests any.
func (v *view) requester(owner unit.Key) *corev1.Pod {
	pod := v.pods[unit.NewKey(topology.KindPod, owner.Name())]
	if pod == nil || pod.Annotations[requestedNetworks] == "" {
		return nil
	}
	return pod
}

// networkOf returns the Network of a row's unit, or "" for a row of the cluster network.
func networkOf(row any) string {
	switch owner := ownerOf(row); owner.Kind() {
	case topology.KindPodNetwork, topology.KindPodNetworkNode:
		network, _, _ := strings.Cut(owner.Name(), "/")
		return network
	case topology.KindPodPorts:
		if port, ok := row.(*nbdb.LogicalSwitchPort); ok {
			return port.ExternalIDs[ovnexpr.NetworkKey]
		}
	}
	return ""
}

// networkAt returns the Network whose addresses a switch port has: that of its unit or, for a foreign port, of its switch.
func (v *view) networkAt(port *nbdb.LogicalSwitchPort) string {
	if ours(port) {
		return networkOf(port)
	}
	for _, s := range v.onSwitch[port.UUID] {
		if network := networkOf(s); network != "" {
			return network
		}
	}
	return ""
}

// deadOfNetworks is dead for the units of Networks.
func (v *view) deadOfNetworks(owner unit.Key) string {
	network, node, _ := strings.Cut(owner.Name(), "/")
	switch {
	case owner.Kind() == topology.KindPodPorts:
		if v.requester(owner) == nil {
			return "a pod that does not exist or that requests no network"
		}
	case v.furthers[network] == nil:
		return "a Network that does not exist"
	case owner.Kind() == topology.KindPodNetworkNode && v.networks[node] == nil && !v.NodesElsewhere[node]:
		return "a node that does not exist"
	}
	return ""
}

func networkPortOfPod(v *view) (found []Violation) {
	for owner, ports := range v.owned {
		pod := v.requester(owner)
		if owner.Kind() != topology.KindPodPorts || pod == nil {
			continue // OwnerLives says so
		}
		for _, port := range ports {
			if wrong := v.wrongNetworkPort(pod, port); wrong != "" {
				found = append(found, v.about([]any{port}, "port %s %s", port.Name, wrong).of(nameOf(pod)))
			}
		}
	}
	return found
}

// wrongNetworkPort describes an error of a pod's port on a Network, or returns "".
func (v *view) wrongNetworkPort(pod *corev1.Pod, port *nbdb.LogicalSwitchPort) string {
	if want, have := networkv1alpha1.InterfaceUID(pod), port.Options[names.InterfaceVersion]; want != have {
		return fmt.Sprintf("has the UID %s, but the pod has %s", have, want)
	}
	for _, on := range v.onSwitch[port.UUID] {
		switch owner := ownerOf(on); {
		case networkOf(on) != networkOf(port):
			return fmt.Sprintf("is of Network %s, but on switch %s", networkOf(port), on.Name)
		case owner.Kind() == topology.KindPodNetworkNode && owner != topology.PodNetworkNodeKey(networkOf(on), pod.Spec.NodeName):
			return fmt.Sprintf("is on switch %s, but the pod is on node %s", on.Name, pod.Spec.NodeName)
		}
	}
	return ""
}

func onePortPerInterface(v *view) (found []Violation) {
	for owner, ports := range v.owned {
		if owner.Kind() != topology.KindPodPorts {
			continue
		}
		by := map[string]*nbdb.LogicalSwitchPort{} // interface -> port
		for _, port := range ports {
			row, ok, err := topology.ParsePodPortsRow(port)
			if !ok || err != nil {
				found = append(found, v.about([]any{port}, "port %s is not a port of an interface: %v", port.Name, err))
				continue
			}
			if other := by[row.Interface]; other != nil {
				both := []any{other, port}
				found = append(found, v.about(both, "interface %s of pod %s/%s has 2 ports: %v", row.Interface, row.Namespace, row.Name,
					v.namesOf(both)))
			}
			by[row.Interface] = port
		}
	}
	return found
}

func attachmentsAreCounted(v *view) (found []Violation) {
	ports := map[string]int32{}
	for owner, owned := range v.owned {
		if owner.Kind() == topology.KindPodPorts {
			for _, port := range owned {
				ports[networkOf(port)]++
			}
		}
	}
	for name, n := range v.furthers {
		// A zone has no ports on Networks.
		if len(n.Status.Conditions) > 0 && !v.divided() && n.Status.Attachments != ports[name] {
			found = append(found, Violation{Message: fmt.Sprintf("status.attachments of Network %s says %d, there are %d ports", name,
				n.Status.Attachments, ports[name])}.of("Network "+name))
		}
	}
	return found
}
