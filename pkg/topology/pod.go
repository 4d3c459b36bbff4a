package topology

import (
	"net"
	"net/netip"

	corev1 "k8s.io/api/core/v1"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/names"
	"github.com/weft-network/weft/pkg/nbdb"
	"github.com/weft-network/weft/pkg/ovnexpr"
	"github.com/weft-network/weft/pkg/unit"
)

// Pod is what the port of a pod needs to know.
type Pod struct {
	Namespace, Name string
	// UID is what the CNI request will carry: the pod's UID, and for a static pod that of its file.
	UID string
	// Node is the switch that the port is on.
	Node string
	// Chassis is the OVS system-id of the node: no other chassis may claim the port.
	Chassis string
	// Addresses of both families, and the MAC.
	Addresses []netip.Addr
	MAC       net.HardwareAddr
	// Slot is the port's tunnel key.
	Slot int
	// Bandwidth limits what the pod sends and receives.
	Bandwidth networkv1alpha1.Bandwidth
	HostPorts []HostPort
	// EgressIP is the name of the EgressIP that the pod has; empty: none.
	EgressIP string
	// Selected are the units of the groups and sets whose selectors select the pod, of those that policies use.
	Selected []unit.Key
}

// WantsPort reports whether a pod has, or shall have, an interface of its own: it is scheduled, does not use the host's
// network, and has not ended. A pod that is being deleted keeps its port until kubelet is done with it.
func WantsPort(pod *corev1.Pod) bool {
	ended := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
	return pod.Spec.NodeName != "" && !pod.Spec.HostNetwork && !ended
}

// InterfaceUID is what the CNI request carries as the pod's UID: for a static pod the hash of its file, which the mirror
// pod in the API has in an annotation.
func InterfaceUID(pod *corev1.Pod) string {
	if _, mirror := pod.Annotations[corev1.MirrorPodAnnotationKey]; mirror {
		if hash := pod.Annotations["kubernetes.io/config.hash"]; hash != "" {
			return hash
		}
	}
	return string(pod.UID)
}

// PodUnit wants the pod's port on its node's switch. The port carries the pod's interface to its node: northd copies
// addresses, options and external_ids to the southbound Port_Binding, where the agent reads them.
func PodUnit(p Pod) unit.Unit {
	name := names.PodPort(names.DefaultNetwork, p.Namespace, p.Name)
	address := ovnexpr.PortAddress{MAC: p.MAC, Addresses: p.Addresses}.String()
	port := &nbdb.LogicalSwitchPort{
		UUID: PodPortUUID(p.Namespace, p.Name, p.UID), Name: name,
		Addresses: []string{address}, PortSecurity: []string{address},
		Options: map[string]string{
			"iface-id-ver":      p.UID,
			"requested-chassis": p.Chassis,
			requestedTunnelKey:  key(p.Slot),
		},
		ExternalIDs: map[string]string{"namespace": p.Namespace, "pod": "true"},
	}
	on := switchRef(names.NodeSwitch(p.Node))
	limits, rules := p.bandwidth(port, on)
	u := unit.Unit{
		Key:     PodKey(p.Namespace, p.Name),
		Rows:    append([]unit.Row{{Model: port}}, limits...),
		Members: append([]unit.Membership{{Parent: on, Column: "ports", Element: port.UUID}, inNamespace(p.Namespace, port.UUID)}, rules...),
	}
	p.addHostPorts(&u, port)
	p.addEgress(&u, port)
	p.addSelected(&u, port)
	return u
}

// PodPortUUID is the UUID of a pod's port. It holds the UID, so that a pod recreated under the same name has another port.
func PodPortUUID(namespace, name, uid string) string {
	return switchPortUUID(names.PodPort(names.DefaultNetwork, namespace, name) + " " + uid)
}

// PortAssignment is what a pod's port in the database says of its assignment.
type PortAssignment struct {
	Namespace, Name, UID string
	Addresses            []netip.Addr
	MAC                  net.HardwareAddr
	Slot                 int
	// Chassis is that of the node, as its agent last reported it.
	Chassis string
}
