package desired

import (
	"fmt"
	"net/netip"
	"slices"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/ovn/names"
)

// Addresses are the addresses of a node, sorted.
type Addresses struct {
	// Own are all of them, on any link.
	Own []netip.Addr
	// Main are the known addresses: the InternalIPs, then the gateway's.
	Main []netip.Addr
	// Ports are the addresses of Own at which node ports and host ports are served.
	Ports []netip.Addr
	// Links are the addresses of Ports that the host has, with their links.
	Links []LinkAddress
}

// NewAddresses returns a node's addresses: the known addresses, which are its InternalIPs and its gateway's, and the addresses of
// the host's links, except
//
//   - loopback and IPv6 link-local addresses, which mean another host everywhere else,
//   - addresses of Weft's own links, and addresses in the networks of pods and services, which OVN serves.
//
// IPv4 link-local addresses count, because programs such as NodeLocal DNSCache are there for the node's pods. Node ports are
// not served at them.
func NewAddresses(known []netip.Addr, links []LinkAddress, spec networkv1alpha1.NodeNetworkSpec, internal []netip.Addr) (a Addresses) {
	a.Own, a.Main = slices.Clone(known), known
	networks := slices.Concat(Prefixes(spec.ClusterSubnets), Prefixes(spec.ServiceSubnets))
	for _, l := range links {
		switch {
		case l.Link == names.ManagementInterface, l.Link == names.EgressInterface, l.Address.IsLoopback(), l.Address.IsMulticast(),
			l.Address.Is6() && l.Address.IsLinkLocalUnicast(),
			slices.ContainsFunc(networks, func(n netip.Prefix) bool { return n.Contains(l.Address) }):
			continue
		}
		a.Own = append(a.Own, l.Address)
		a.Links = append(a.Links, l)
	}
	slices.SortFunc(a.Own, netip.Addr.Compare)
	a.Own = slices.Compact(a.Own)
	a.Ports = facts.PortAddresses(a.Own, spec.Gateway.NodePortAddresses, internal)
	a.Links = slices.DeleteFunc(a.Links, func(l LinkAddress) bool { return !slices.Contains(a.Ports, l.Address) })
	return a
}

// seen returns the address that pods of the node see as the client of a connection that the host hides: the first InternalIP of a family,
// else the gateway's address, else another address of the node.
func (a Addresses) seen(is4 bool) (address netip.Addr, ok bool) {
	for _, address := range slices.Concat(a.Main, a.Own) {
		if address.Is4() == is4 && !address.IsLinkLocalUnicast() {
			return address, true
		}
	}
	return address, false
}

// CheckPorts returns an error if spec.gateway.nodePortAddresses leaves no address at which node ports are served.
func (a Addresses) CheckPorts(spec networkv1alpha1.NodeNetworkSpec) error {
	if rule := spec.Gateway.NodePortAddresses; len(rule) > 0 && len(a.Ports) == 0 {
		return fmt.Errorf("spec.gateway.nodePortAddresses %v has none of the node's addresses %v: node ports and host ports "+
			"are not served", rule, a.Own)
	}
	return nil
}

// maxReported is the number of addresses that NodeNetwork.status.hostAddresses may have.
const maxReported = 64

// Reported returns the addresses for NodeNetwork.status.hostAddresses: all but the known ones.
func (a Addresses) Reported(known []netip.Addr) (texts []networkv1alpha1.IP) {
	for _, address := range a.Own {
		if !slices.Contains(known, address) && len(texts) < maxReported {
			texts = append(texts, networkv1alpha1.IP(address.String()))
		}
	}
	return texts
}
