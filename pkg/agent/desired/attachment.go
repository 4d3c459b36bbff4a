package desired

import (
	"fmt"
	"net/netip"
	"strings"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/ovnexpr"
	"github.com/weft-network/weft/pkg/sbdb"
	"github.com/weft-network/weft/pkg/unit"
	"github.com/weft-network/weft/pkg/vswitchdb"
)

// VIF is a pod's interface as the southbound database carries it to the node.
type VIF struct {
	ovnexpr.PortAddress
	// PodUID is the port's iface-id-ver.
	PodUID string
	// Prefixes are the addresses with the length of their subnet, Gateways the routers, one per family.
	Prefixes []netip.Prefix
	Gateways []netip.Addr
}

// NewVIF reads a pod's interface from its binding; subnets and gateways are the node's.
func NewVIF(binding *sbdb.PortBinding, spec networkv1alpha1.NodeNetworkSpec) (VIF, error) {
	if len(binding.MAC) != 1 {
		return VIF{}, fmt.Errorf("Port_Binding %s: %d elements in mac, want 1", binding.LogicalPort, len(binding.MAC))
	}
	address, err := ovnexpr.ParsePortAddress(binding.MAC[0])
	if err != nil {
		return VIF{}, fmt.Errorf("Port_Binding %s: %w", binding.LogicalPort, err)
	}
	if len(address.Addresses) == 0 {
		return VIF{}, fmt.Errorf("Port_Binding %s: mac %q has no IP address", binding.LogicalPort, binding.MAC[0])
	}
	vif := VIF{PortAddress: address, PodUID: binding.Options["iface-id-ver"]}
	for _, a := range address.Addresses {
		if err := vif.place(a, spec); err != nil {
			return VIF{}, fmt.Errorf("Port_Binding %s: %w", binding.LogicalPort, err)
		}
	}
	return vif, nil
}

// place finds the subnet and gateway of an address.
func (v *VIF) place(a netip.Addr, spec networkv1alpha1.NodeNetworkSpec) error {
	for i, cidr := range spec.PodSubnets {
		subnet, err := cidr.Prefix()
		if err != nil {
			return err
		}
		if !subnet.Contains(a) {
			continue
		}
		v.Prefixes = append(v.Prefixes, netip.PrefixFrom(a, subnet.Bits()))
		if i < len(spec.Gateways) {
			gateway, err := spec.Gateways[i].Addr()
			if err != nil {
				return err
			}
			v.Gateways = append(v.Gateways, gateway)
		}
		return nil
	}
	return fmt.Errorf("address %s is in none of the node's subnets %v", a, spec.PodSubnets)
}

// Attachment is one interface of one sandbox.
type Attachment struct {
	// InterfaceID is the name of the logical port; one attachment per port, the newest sandbox's.
	InterfaceID string
	PodUID      string
	// Network is the name of the CNI network configuration; empty in a record that was made without it.
	Network     string
	ContainerID string
	// NetNS is the path of the sandbox's network namespace; empty in a record that was made without it.
	NetNS     string
	IfName    string
	HostName  string
	MAC       string
	Addresses []netip.Addr
}

// external_ids keys of a pod's Interface. ovn-controller reads the first two, the others are the agent's record.
const (
	keyInterfaceID = "iface-id"
	keyVersion     = "iface-id-ver"
	keyMAC         = "attached_mac"
	keySandbox     = "sandbox"
	keyIfName      = "pod-if-name"
	keyNetwork     = "cni-network"
	keyNetNS       = "netns"
	keyAddresses   = "ip_addresses"
)

// AttachmentKey is the unit of a logical port's interface.
func AttachmentKey(interfaceID string) unit.Key { return unit.NewKey(KindAttachment, interfaceID) }

// AttachmentUnit wants the pod's port on br-int. The rows' UUIDs hold the sandbox: a new sandbox of the same pod replaces the
// rows of the old one in one transaction.
func AttachmentUnit(a Attachment, bridgeUUID string) unit.Unit {
	u := unit.Unit{Key: AttachmentKey(a.InterfaceID)}
	addresses := make([]string, 0, len(a.Addresses))
	for _, address := range a.Addresses {
		addresses = append(addresses, address.String())
	}
	iface := &vswitchdb.Interface{ExternalIDs: map[string]string{
		keyInterfaceID: a.InterfaceID, keyVersion: a.PodUID, keyMAC: a.MAC, keySandbox: a.ContainerID, keyIfName: a.IfName,
		keyAddresses: strings.Join(addresses, ","),
	}}
	for key, value := range map[string]string{keyNetwork: a.Network, keyNetNS: a.NetNS} {
		if value != "" {
			iface.ExternalIDs[key] = value
		}
	}
	// A reboot empties the bridge of transient ports before anything uses them.
	addPort(&u, bridgeUUID, a.HostName, attachmentRow(a), iface, map[string]string{"transient": "true"})
	return u
}

func attachmentRow(a Attachment) string { return a.InterfaceID + " " + a.ContainerID + " " + a.IfName }

// AttachmentInterfaceUUID is the UUID of the attachment's Interface.
func AttachmentInterfaceUUID(a Attachment) string {
	return unit.UUID(vswitchdb.InterfaceTable, attachmentRow(a))
}

// ParseAttachment reads an attachment back from its Interface; ok is false for interfaces that are none.
func ParseAttachment(row *vswitchdb.Interface) (a Attachment, ok bool) {
	owner := unit.Key(row.ExternalIDs[unit.OwnerKey])
	if owner.Kind() != KindAttachment || row.ExternalIDs[keySandbox] == "" {
		return a, false
	}
	a = Attachment{
		InterfaceID: row.ExternalIDs[keyInterfaceID], PodUID: row.ExternalIDs[keyVersion], MAC: row.ExternalIDs[keyMAC],
		ContainerID: row.ExternalIDs[keySandbox], IfName: row.ExternalIDs[keyIfName], HostName: row.Name,
		Network: row.ExternalIDs[keyNetwork], NetNS: row.ExternalIDs[keyNetNS],
	}
	for text := range strings.SplitSeq(row.ExternalIDs[keyAddresses], ",") {
		if address, err := netip.ParseAddr(text); err == nil {
			a.Addresses = append(a.Addresses, address)
		}
	}
	return a, true
}

// Installed reports whether ovn-controller has put the interface's flows into Open vSwitch. The row is new for each sandbox,
// so the mark cannot be an earlier one's.
func Installed(row *vswitchdb.Interface) bool { return row.ExternalIDs["ovn-installed"] == "true" }
