package topology

import (
	"net"
	"net/netip"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/ovn/names"
	"github.com/weft-network/weft/pkg/ovn/nbdb"
	"github.com/weft-network/weft/pkg/ovn/ovnexpr"
	"github.com/weft-network/weft/pkg/unit"
)

// Pod holds the facts for PodUnit.
type Pod struct {
	Namespace, Name string
	// UID is the UID in the CNI request: the pod's UID, and for a static pod the hash of its file.
	UID string
	// Node is the node's name, which is also the name of the port's switch.
	Node string
	// Chassis is the OVS system-id of the node. No other chassis may claim the port.
	Chassis string
	// Addresses are the pod's addresses of both families.
	Addresses []netip.Addr
	// Floating are the floating addresses among Addresses. They are in a network of the cluster and in no node's
	// subnet.
	Floating []netip.Addr
	// WaysOut are the next hops, at most one per family, by which floating addresses leave: in Shared mode the join
	// address of the node's gateway router, in Local mode the address of its management port. Without one, packets of a
	// floating address to outside are refused. With Translated, they are the gateway router's join addresses.
	WaysOut []netip.Addr
	// Translated are floating addresses that the node's gateway router translates to the first of Addresses of the same
	// family, in both directions. They replace the EgressIP in their family.
	Translated []netip.Addr
	// Clusters are the networks whose pods reach Translated. Without them, or without WaysOut, pods on the same node do
	// not reach it.
	Clusters []netip.Prefix
	// MAC must be ipam.MAC(Floating) if a floating address is IPv4.
	MAC net.HardwareAddr
	// Slot is the port's tunnel key.
	Slot int
	// Bandwidth limits the traffic that the pod sends and receives.
	Bandwidth networkv1alpha1.Bandwidth
	HostPorts []facts.HostPort
	// RandomHostPorts are the requested random host ports, with the port 0, whether or not the pod has them yet.
	RandomHostPorts []facts.HostPort
	// EgressIP is the name of the pod's EgressIP, or "".
	EgressIP string
	// NextHops are routers outside by which the pod's packets leave untranslated, instead of by the node's next hop, if the node
	// has a gateway router.
	NextHops []facts.NextHop
	// Networks changes with the networks that the pod requests; empty if it requests none.
	Networks string
	// Selected are the units of the groups and sets of policies whose selectors select the pod.
	Selected []unit.Key
}

// PodUnit returns a unit with the pod's port on its node's switch. The port carries the pod's interface data to its
// node: northd copies addresses, options and external_ids to the southbound Port_Binding, where the agent reads them.
func PodUnit(p Pod) unit.Unit {
	name := names.PodPort(names.DefaultNetwork, p.Namespace, p.Name)
	address := ovnexpr.PortAddress{MAC: p.MAC, Addresses: p.Addresses}.String()
	port := &nbdb.LogicalSwitchPort{
		UUID: PodPortUUID(p.Namespace, p.Name, p.UID), Name: name,
		Addresses: []string{address}, PortSecurity: []string{address},
		Options: map[string]string{
			names.InterfaceVersion: p.UID,
			names.RequestedChassis: p.Chassis,
			requestedTunnelKey:     key(p.Slot),
		},
		ExternalIDs: map[string]string{"namespace": p.Namespace, "pod": "true"},
	}
	if p.Networks != "" {
		port.ExternalIDs[ovnexpr.NetworksKey] = p.Networks
	}
	on := switchRef(names.NodeSwitch(p.Node))
	limits, rules := p.bandwidth(port, on)
	u := unit.Unit{
		Key:  PodKey(p.Namespace, p.Name),
		Rows: append([]unit.Row{{Model: port}}, limits...),
		Members: append([]unit.Membership{{Parent: on, Column: "ports", Element: port.UUID},
			inNamespace(p.Namespace, port.UUID)}, rules...),
	}
	p.addHostPorts(&u, port)
	p.addEgress(&u, port)
	p.addFloating(&u, port)
	p.addNextHops(&u, port)
	addSelected(&u, port.UUID, p.Addresses, p.Selected)
	return u
}

// PodPortUUID returns the UUID of a pod's port. It depends on the UID, so that a pod that is recreated under the same
// name has another port.
func PodPortUUID(namespace, name, uid string) string {
	return switchPortUUID(names.PodPort(names.DefaultNetwork, namespace, name) + " " + uid)
}

// PortAssignment is a pod's assignment as stored in its port in the database.
type PortAssignment struct {
	Namespace, Name, UID string
	Addresses            []netip.Addr
	// Floating are the addresses that no subnet of the node has.
	Floating []netip.Addr
	// Translated are the addresses that the gateway router of the node translates.
	Translated []netip.Addr
	MAC        net.HardwareAddr
	Slot       int
	// Chassis is the node's chassis as its agent last reported it.
	Chassis string
	// Changed means that another program has changed the port: it may send from other addresses than it gets.
	Changed bool
}
