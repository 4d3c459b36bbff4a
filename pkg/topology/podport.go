package topology

import (
	"crypto/sha256"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/ipam"
	"github.com/weft-network/weft/pkg/ovn/names"
	"github.com/weft-network/weft/pkg/ovn/nbdb"
	"github.com/weft-network/weft/pkg/ovn/ovnexpr"
	"github.com/weft-network/weft/pkg/unit"
)

// PodPort is what a pod's port on a Network is made from.
type PodPort struct {
	Namespace, Name, UID string
	// Node is the pod's node, Chassis its OVS system-id.
	Node, Chassis string
	Network       facts.PodNetwork
	// Interface is the name of the link in the pod.
	Interface string
	// Request is the hash of the request that the port serves.
	Request string
	// Addresses are the pod's addresses with the length of their subnet. They are empty if the pod configures itself.
	Addresses []netip.Prefix
	// Floating are the addresses of these that are of an IPPool.
	Floating []netip.Addr
	MAC      net.HardwareAddr
	// Slot is the port's tunnel key; 0: northd chooses.
	Slot int
	// Gateways are the next hops of the pod's default routes, if they go through this network.
	Gateways  []netip.Addr
	Bandwidth networkv1alpha1.Bandwidth
	// Selected are the units of the groups and sets of policies whose selectors select the pod on the network.
	Selected []unit.Key
}

// PortName returns the name of the port.
func (p PodPort) PortName() string {
	return names.NetworkPort(p.Network.Name, p.Namespace, p.Name, p.Interface)
}

// PodPortsUnit wants the ports of a pod on Networks.
func PodPortsUnit(namespace, name string, ports []PodPort) unit.Unit {
	u := unit.Unit{Key: PodPortsKey(namespace, name)}
	for _, p := range ports {
		p.addTo(&u)
	}
	return u
}

func (p PodPort) addTo(u *unit.Unit) {
	port := &nbdb.LogicalSwitchPort{
		UUID: NetworkPortUUID(p.PortName(), p.UID), Name: p.PortName(), ExternalIDs: map[string]string{"namespace": p.Namespace},
		Options: map[string]string{names.InterfaceVersion: p.UID, names.RequestedChassis: p.Chassis},
	}
	if p.Slot != 0 {
		port.Options[requestedTunnelKey] = key(p.Slot)
	}
	address := ovnexpr.PortAddress{MAC: p.MAC, Addresses: ipam.Addresses(p.Addresses)}.String()
	port.Addresses, port.PortSecurity = []string{address}, []string{address}
	if len(p.Addresses) == 0 {
		port.Addresses = []string{p.MAC.String(), "unknown"}
	}
	p.attachment().AddTo(port.ExternalIDs)
	on := switchRef(p.Network.Switch(p.Node))
	u.Rows = append(u.Rows, unit.Row{Model: port})
	u.Members = append(u.Members, unit.Membership{Parent: on, Column: "ports", Element: port.UUID})
	rows, members := Pod{Bandwidth: p.Bandwidth}.bandwidth(port, on)
	u.Rows, u.Members = append(u.Rows, rows...), append(u.Members, members...)
	addSelected(u, port.UUID, ipam.Addresses(p.Addresses), p.Selected)
}

// attachment is what the pod's node must know of the interface.
func (p PodPort) attachment() ovnexpr.Attachment {
	a := ovnexpr.Attachment{Network: p.Network.Name, Request: p.Request, Prefixes: p.Addresses, Gateways: p.Gateways, MTU: p.Network.MTU}
	if p.Network.Topology == networkv1alpha1.TopologyLocalnet && len(p.Addresses) > 0 {
		a.Floating, a.PhysicalNetwork, a.VLAN = p.Floating, p.Network.PhysicalNetwork, p.Network.VLAN
	}
	if !p.Network.PerNode() {
		return a
	}
	for _, address := range p.Addresses {
		for _, subnet := range p.Network.Subnets {
			if subnet.CIDR.Contains(address.Addr()) {
				a.Routes = append(a.Routes, ovnexpr.NetworkRoute{Destination: subnet.CIDR, Gateway: ipam.Gateway(address.Masked())})
			}
		}
	}
	return a
}

// NetworkPortUUID is the UUID of a pod's port on a Network. It holds the pod's UID, so that a pod recreated under the
// same name has another port.
func NetworkPortUUID(port, uid string) string { return switchPortUUID(port + " " + uid) }

// NetworkMAC is the MAC of a port without addresses. It follows from the port's name, so that it survives a restart.
func NetworkMAC(port string) net.HardwareAddr {
	sum := sha256.Sum256([]byte(port))
	mac := net.HardwareAddr(sum[:6])
	mac[0] = mac[0]&^0x01 | 0x02 // of a single interface, locally administered
	return mac
}

// PodPortRow is what a port in the database says of a pod's attachment to a Network.
type PodPortRow struct {
	Namespace, Name, UID string
	Network, Interface   string
	Addresses            []netip.Addr
	MAC                  net.HardwareAddr
	Slot                 int
}

// ParsePodPortsRow reads a pod's attachment back from its port; ok is false for ports that PodPortsUnit did not make.
func ParsePodPortsRow(row *nbdb.LogicalSwitchPort) (found PodPortRow, ok bool, err error) {
	if owner := unit.Key(row.ExternalIDs[unit.OwnerKey]); owner.Kind() != KindPodPorts {
		return found, false, nil
	}
	const parts = 4
	name := strings.SplitN(row.Name, "_", parts)
	if len(name) != parts || len(row.Addresses) == 0 {
		return found, false, fmt.Errorf("port %s: not the name, or not the addresses, of a port on a Network", row.Name)
	}
	found.Network, found.Namespace, found.Name, found.Interface = name[0], name[1], name[2], name[3]
	found.UID = row.Options[names.InterfaceVersion]
	if text := row.Options[requestedTunnelKey]; text != "" {
		if found.Slot, err = strconv.Atoi(text); err != nil {
			return found, false, fmt.Errorf("port %s: %s: %w", row.Name, requestedTunnelKey, err)
		}
	}
	address, err := ovnexpr.ParsePortAddress(row.Addresses[0])
	if err != nil {
		return found, false, fmt.Errorf("port %s: %w", row.Name, err)
	}
	found.Addresses, found.MAC = slices.Clone(address.Addresses), address.MAC
	return found, true, nil
}
