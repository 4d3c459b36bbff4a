package desired

import (
	"cmp"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	discoveryv1 "k8s.io/api/discovery/v1"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/ipam/reserved"
	"github.com/weft-network/weft/pkg/ovn/names"
	"github.com/weft-network/weft/pkg/ovn/sbdb"
)

// Unreserved returns the frontends whose destination is not reserved. The operator refuses the others too and reports
// them to their owners. The agent does not depend on that, because a translation of a reserved destination could
// disconnect the operator.
func Unreserved(frontends []Frontend, table reserved.Table) []Frontend {
	return slices.DeleteFunc(slices.Clone(frontends), func(f Frontend) bool {
		isReserved := false
		switch protocol := string(f.Protocol); {
		case f.IsClusterIP:
		case f.Address.IsValid():
			_, isReserved = table.At(netip.AddrPortFrom(f.Address, f.Port), protocol)
		default:
			_, isReserved = table.OnNodes(protocol, f.Port)
		}
		return isReserved
	})
}

// Unheld returns the frontends without the external IPs at addresses of nodes whose port is a node port of another service, or at own, the
// node's addresses, a host port of a pod. The operator refuses these external IPs for pods and clients outside.
func Unheld(frontends []Frontend, nodes map[netip.Addr]string, own []netip.Addr) []Frontend {
	return slices.DeleteFunc(slices.Clone(frontends), func(f Frontend) bool {
		if _, onNode := nodes[f.Address]; !f.Requested || !onNode {
			return false
		}
		return slices.ContainsFunc(frontends, func(other Frontend) bool {
			if other.Protocol != f.Protocol || other.Port != f.Port || other.ClusterIP.Is4() != f.ClusterIP.Is4() {
				return false
			}
			if other.Pod {
				return slices.Contains(own, f.Address) && (!other.Address.IsValid() || other.Address == f.Address)
			}
			return !other.Address.IsValid() && other.ClusterIP != f.ClusterIP
		})
	})
}

// ReservedPorts returns the reserved ports in the NodeNetwork's spec.
func ReservedPorts(spec networkv1alpha1.NodeNetworkSpec) (found []reserved.Port) {
	for _, p := range spec.ReservedPorts {
		found = append(found, reserved.Port{Protocol: strings.ToLower(string(p.Protocol)), Number: uint16(p.Port), Owner: p.Owner})
	}
	return found
}

// Sessions returns what the node's sessions of BGP and BFD need. watched are the routers that its gateway router watches.
func Sessions(spec networkv1alpha1.NodeNetworkSpec, watched []netip.Addr) (found []reserved.Destination) {
	if spec.BGP != nil {
		for _, peer := range spec.BGP.Peers {
			if address, err := peer.PeerAddress.Addr(); err == nil {
				found = append(found, facts.PeerDestinations(peer.Name, address, uint16(peer.PeerPort), peer.BFD != nil)...)
			}
		}
	}
	return append(found, facts.HopDestinations("an ExternalRoute", watched...)...)
}

// InsideNetworks reads the address sets that the operator keeps for egress IPs: the networks of pods and routers, and the addresses of
// all nodes.
func InsideNetworks(sets []*sbdb.AddressSet) (found []netip.Prefix) {
	for _, set := range sets {
		if set.Name != names.Inside("IPv4") && set.Name != names.Inside("IPv6") {
			continue
		}
		for _, text := range set.Addresses {
			if network, err := netip.ParsePrefix(text); err == nil {
				found = append(found, network)
			} else if address, err := netip.ParseAddr(text); err == nil {
				found = append(found, netip.PrefixFrom(address, address.BitLen()))
			}
		}
	}
	return found
}

// NodeAddresses reads the addresses of all nodes from the same sets.
func NodeAddresses(sets []*sbdb.AddressSet) map[netip.Addr]string {
	found := map[netip.Addr]string{}
	for _, network := range InsideNetworks(sets) {
		if network.IsSingleIP() {
			found[network.Addr()] = ""
		}
	}
	return found
}

// Servers returns the endpoints in a slice of the API server's service. Their protocol is always TCP, regardless of the
// slice.
func Servers(slice *discoveryv1.EndpointSlice) (found []reserved.Destination) {
	for _, e := range slice.Endpoints {
		for _, address := range addressesOf(e.Addresses) {
			for _, p := range slice.Ports {
				if p.Port != nil {
					server := reserved.Port{Protocol: "tcp", Number: uint16(*p.Port), Owner: "the Kubernetes API server"}
					found = append(found, reserved.Destination{Port: server, Address: address})
				}
			}
		}
	}
	slices.SortFunc(found, func(a, b reserved.Destination) int {
		return cmp.Or(a.Address.Compare(b.Address), cmp.Compare(a.Number, b.Number))
	})
	return found
}

// endpoint returns a reserved destination in the syntax of nftables' maps and sets: "192.0.2.1 . tcp . 6443".
func endpoint(d reserved.Destination) string {
	return strings.Join([]string{d.Address.String(), d.Protocol, strconv.Itoa(int(d.Number))}, " . ")
}
