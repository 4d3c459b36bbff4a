package node

import (
	"fmt"
	"net/netip"

	corev1 "k8s.io/api/core/v1"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/agent/desired"
	"github.com/weft-network/weft/pkg/agent/hostnet"
	"github.com/weft-network/weft/pkg/ovn/vswitchdb"
	"github.com/weft-network/weft/pkg/ovndb"
)

// tunnels returns the host's addresses for tunnels, and has their links and networks watched. They are the addresses in the
// networks of spec.encapsulation, or else the Node's first InternalIP.
func (r *Reconciler) tunnels(node *corev1.Node, spec networkv1alpha1.Encapsulation, status *networkv1alpha1.NodeNetworkStatus) (
	[]desired.LinkAddress, error) {
	networks, err := desired.TunnelNetworks(spec)
	if err != nil {
		return nil, err
	}
	missing := fmt.Errorf("encapsulation: no link of this host has an address in spec.encapsulation.networks %v", networks)
	if len(networks) == 0 {
		address, err := desired.InternalIP(node)
		if err != nil {
			return nil, err
		}
		networks = []netip.Prefix{netip.PrefixFrom(address, address.BitLen())}
		missing = fmt.Errorf("encapsulation: Node's InternalIP %[1]s: no link of this host has address %[1]s", address)
	}
	have, err := hostnet.AddressesIn(networks)
	if err != nil {
		return nil, fmt.Errorf("encapsulation: %w", err)
	}
	chosen := desired.TunnelAddresses(networks, have, tunnelsInUse(status))
	links := make([]string, 0, len(chosen))
	for _, t := range chosen {
		links = append(links, t.Link)
	}
	r.Gateway.SetTunnels(links) // an address that comes later enqueues the node
	if len(chosen) == 0 {
		return nil, missing
	}
	return chosen, nil
}

// tunnelsInUse returns the addresses that the status has.
func tunnelsInUse(status *networkv1alpha1.NodeNetworkStatus) (addresses []netip.Addr) {
	for _, text := range append([]networkv1alpha1.IP{status.EncapIP}, status.FurtherEncapIPs...) {
		if a, err := text.Addr(); err == nil {
			addresses = append(addresses, a)
		}
	}
	return addresses
}

// uplinkError means that the node could not receive tunnelled packets. A change of the bridges enqueues another
// reconciliation.
type uplinkError struct{ tunnel desired.LinkAddress }

func (e *uplinkError) Error() string {
	return fmt.Sprintf("encapsulation address %s is on link %s: "+
		"the userspace datapath receives Geneve only on a bridge with datapath_type=netdev", e.tunnel.Address, e.tunnel.Link)
}

// checkUplink returns an uplinkError unless Open vSwitch receives the packets to an encapsulation address. The kernel's
// datapath always does. The userspace datapath needs the address on a bridge of its own, which the node's administrator
// creates.
func (r *Reconciler) checkUplink(datapath networkv1alpha1.DatapathType, tunnel desired.LinkAddress) error {
	if datapath != networkv1alpha1.DatapathNetdev {
		return nil
	}
	bridge, ok := ovndb.Find(r.OVS.Conn, &vswitchdb.Bridge{Name: tunnel.Link})
	if ok && bridge.DatapathType == string(networkv1alpha1.DatapathNetdev) {
		return nil
	}
	return &uplinkError{tunnel}
}
