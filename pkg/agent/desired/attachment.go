package desired

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/ovn/names"
	"github.com/weft-network/weft/pkg/ovn/ovnexpr"
	"github.com/weft-network/weft/pkg/ovn/sbdb"
	"github.com/weft-network/weft/pkg/ovn/vswitchdb"
	"github.com/weft-network/weft/pkg/unit"
)

// VIF is a pod's interface as described by the southbound database.
type VIF struct {
	ovnexpr.PortAddress
	// PodUID is the port's iface-id-ver.
	PodUID string
	// Prefixes are the addresses with the length of their subnet's prefix. Gateways are the routers, one per family.
	Prefixes []netip.Prefix
	Gateways []netip.Addr
	// Routes are those through a Network's router.
	Routes []ovnexpr.NetworkRoute
	// MTU in bytes; 0: that of the pods' interfaces on the cluster network.
	MTU int
	// Request is the hash of the request that a port of a Network serves; empty for a port of the cluster network.
	Request string
	// Floating are addresses of an IPPool on a segment of the data centre: VLAN of PhysicalNetwork. The pod has them
	// itself if it is on that segment; else the node's gateway router has them.
	Floating        []netip.Addr
	PhysicalNetwork string // empty: the interface is on no segment
	VLAN            int
}

// OnSegment returns the addresses that the pod uses on a segment of the data centre, itself or by the node's gateway router.
func (v VIF) OnSegment() []netip.Addr {
	switch {
	case v.PhysicalNetwork == "":
		return nil
	case v.Request == "": // on the cluster network
		return v.Floating
	}
	return v.Addresses
}

// NewVIF reads a pod's interface from its binding. The subnets and gateways are the node's, from spec.
func NewVIF(binding *sbdb.PortBinding, spec networkv1alpha1.NodeNetworkSpec) (VIF, error) {
	attachment, ok, err := ovnexpr.ParseAttachment(binding.ExternalIDs)
	if err != nil {
		return VIF{}, fmt.Errorf("Port_Binding %s: %w", binding.LogicalPort, err)
	}
	if ok {
		return newNetworkVIF(binding, attachment)
	}
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
	floating, err := ovnexpr.ParseAddresses(binding.ExternalIDs, ovnexpr.FloatingKey)
	if err != nil {
		return VIF{}, fmt.Errorf("Port_Binding %s: %w", binding.LogicalPort, err)
	}
	vif := VIF{PortAddress: address, PodUID: binding.Options[names.InterfaceVersion], PhysicalNetwork: names.PhysicalNetwork}
	if vif.Floating, err = ovnexpr.ParseAddresses(binding.ExternalIDs, ovnexpr.TranslatedKey); err != nil {
		return VIF{}, fmt.Errorf("Port_Binding %s: %w", binding.LogicalPort, err)
	}
	for _, a := range address.Addresses {
		place := vif.place
		if slices.Contains(floating, a) {
			place = vif.placeFloating
		}
		if err := place(a, spec); err != nil {
			return VIF{}, fmt.Errorf("Port_Binding %s: %w", binding.LogicalPort, err)
		}
	}
	return vif, nil
}

// newNetworkVIF reads a pod's interface on a Network. A Network without addresses adds "unknown" to the port's
// addresses.
func newNetworkVIF(binding *sbdb.PortBinding, a ovnexpr.Attachment) (VIF, error) {
	if len(binding.MAC) == 0 {
		return VIF{}, fmt.Errorf("Port_Binding %s: mac is empty", binding.LogicalPort)
	}
	address, err := ovnexpr.ParsePortAddress(binding.MAC[0])
	if err != nil {
		return VIF{}, fmt.Errorf("Port_Binding %s: %w", binding.LogicalPort, err)
	}
	return VIF{PortAddress: address, PodUID: binding.Options[names.InterfaceVersion],
		Prefixes: a.Prefixes, Gateways: a.Gateways, Routes: a.Routes, MTU: a.MTU, Request: a.Request,
		Floating: a.Floating, PhysicalNetwork: a.PhysicalNetwork, VLAN: a.VLAN}, nil
}

// place adds the prefix and the gateway of an address.
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

// placeFloating adds a floating address, which has no subnet, and the node's gateway of its family. The gateway is on the
// link.
func (v *VIF) placeFloating(a netip.Addr, spec networkv1alpha1.NodeNetworkSpec) error {
	gateway, err := gatewayFor(netip.PrefixFrom(a, a.BitLen()), spec.Gateways)
	if err != nil {
		return err
	}
	if !gateway.IsValid() {
		return fmt.Errorf("floating address %s: the node has no gateway of its family", a)
	}
	v.Prefixes = append(v.Prefixes, netip.PrefixFrom(a, a.BitLen()))
	if !slices.Contains(v.Gateways, gateway) {
		v.Gateways = append(v.Gateways, gateway)
	}
	return nil
}

// Attachment is one interface of one sandbox.
type Attachment struct {
	// InterfaceID is the name of the logical port. A port has one attachment, which belongs to the newest sandbox.
	InterfaceID string
	PodUID      string
	// Network is the name of the CNI network configuration. It is empty in records of versions that did not store it.
	Network     string
	ContainerID string
	// NetNS is the path of the sandbox's network namespace. It is empty in records of versions that did not store it.
	NetNS     string
	IfName    string
	HostName  string
	MAC       string
	Addresses []netip.Addr
	// Request is the hash of the request that an interface on a Network serves; empty on the cluster network.
	Request string
	// MTU in bytes, if the Network has its own; 0: it follows the node's.
	MTU int
	// HostPorts are the pod's random host ports.
	HostPorts []ovnexpr.HostPort
	// OtherDefaultRoutes are the families ("IPv4", "IPv6") whose default route goes through another interface of the
	// pod.
	OtherDefaultRoutes []string
}

// Keys in external_ids of a pod's Interface. ovn-controller reads the first two and the last. The others are the agent's
// record.
const (
	keyInterfaceID = "iface-id"
	keyVersion     = names.InterfaceVersion
	keyMAC         = "attached_mac"
	keySandbox     = "sandbox"
	keyIfName      = "pod-if-name"
	keyNetwork     = "cni-network"
	keyNetNS       = "netns"
	keyAddresses   = "ip_addresses"
	keyRequest     = "request"
	keyMTU         = "mtu"
	keyOtherRoutes = "other-default-routes"
	keyHostPorts   = "host-ports"
	keyTunnel      = "encap-ip"
)

// IsOf reports whether an Interface is that of a pod with a UID, by the interface's name in the pod.
func IsOf(row *vswitchdb.Interface, podUID, ifName string) bool {
	return podUID != "" && row.ExternalIDs[keyVersion] == podUID && row.ExternalIDs[keyIfName] == ifName
}

// AttachmentKey returns the key of the unit with a logical port's interface.
func AttachmentKey(interfaceID string) unit.Key { return unit.NewKey(KindAttachment, interfaceID) }

// AttachmentUnit returns the unit with the pod's port on br-int. The rows' UUIDs depend on the sandbox, so that a new
// sandbox of the same pod replaces the rows of the old one in one transaction. tunnels are Chassis.Tunnels.
func AttachmentUnit(a Attachment, bridgeUUID string, tunnels []netip.Addr) unit.Unit {
	u := unit.Unit{Key: AttachmentKey(a.InterfaceID)}
	iface := &vswitchdb.Interface{ExternalIDs: a.Record()}
	if tunnel := TunnelOf(a.InterfaceID, tunnels); tunnel != "" {
		iface.ExternalIDs[keyTunnel] = tunnel
	}
	// After a reboot, Open vSwitch removes transient ports from the bridge before anything uses them.
	addPort(&u, bridgeUUID, a.HostName, attachmentRow(a), iface, map[string]string{"transient": "true"})
	return u
}

// Record returns the attachment as external_ids of its Interface, from which ParseRecord reads it.
func (a Attachment) Record() map[string]string {
	addresses := make([]string, 0, len(a.Addresses))
	for _, address := range a.Addresses {
		addresses = append(addresses, address.String())
	}
	record := map[string]string{
		keyInterfaceID: a.InterfaceID, keyVersion: a.PodUID, keyMAC: a.MAC, keySandbox: a.ContainerID, keyIfName: a.IfName,
		keyAddresses: strings.Join(addresses, ","),
	}
	optional := map[string]string{keyNetwork: a.Network, keyNetNS: a.NetNS, keyRequest: a.Request,
		keyOtherRoutes: strings.Join(a.OtherDefaultRoutes, ","), keyHostPorts: ovnexpr.FormatHostPorts(a.HostPorts)}
	if a.MTU != 0 {
		optional[keyMTU] = strconv.Itoa(a.MTU)
	}
	for key, value := range optional {
		if value != "" {
			record[key] = value
		}
	}
	return record
}

func attachmentRow(a Attachment) string { return a.InterfaceID + " " + a.ContainerID + " " + a.IfName }

// AttachmentInterfaceUUID returns the UUID of the attachment's Interface row.
func AttachmentInterfaceUUID(a Attachment) string {
	return unit.UUID(vswitchdb.InterfaceTable, attachmentRow(a))
}

// ParseAttachment reads an attachment from its Interface row. ok is false for other interfaces.
func ParseAttachment(row *vswitchdb.Interface) (a Attachment, ok bool) {
	owner := unit.Key(row.ExternalIDs[unit.OwnerKey])
	if owner.Kind() != KindAttachment || row.ExternalIDs[keySandbox] == "" {
		return a, false
	}
	return ParseRecord(row.Name, row.ExternalIDs), true
}

// ParseRecord reads an attachment from the name of its host's link and its record.
func ParseRecord(hostName string, record map[string]string) Attachment {
	a := Attachment{
		InterfaceID: record[keyInterfaceID], PodUID: record[keyVersion], MAC: record[keyMAC],
		ContainerID: record[keySandbox], IfName: record[keyIfName], HostName: hostName,
		Network: record[keyNetwork], NetNS: record[keyNetNS], Request: record[keyRequest],
	}
	a.MTU, _ = strconv.Atoi(record[keyMTU])                       // absent, the MTU is the node's
	a.HostPorts, _ = ovnexpr.ParseHostPorts(record[keyHostPorts]) // the agent wrote them
	if families := record[keyOtherRoutes]; families != "" {
		a.OtherDefaultRoutes = strings.Split(families, ",")
	}
	for text := range strings.SplitSeq(record[keyAddresses], ",") {
		if address, err := netip.ParseAddr(text); err == nil {
			a.Addresses = append(a.Addresses, address)
		}
	}
	return a
}

// Installed reports whether ovn-controller has installed the interface's flows in Open vSwitch. Each sandbox has a
// new row, so that the mark cannot be that of an earlier sandbox.
func Installed(row *vswitchdb.Interface) bool { return row.ExternalIDs["ovn-installed"] == "true" }
