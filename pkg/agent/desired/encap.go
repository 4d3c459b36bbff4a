package desired

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"net/netip"
	"slices"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

// LinkAddress is an address of the host, with the name and the MTU in bytes of its link.
type LinkAddress struct {
	Address netip.Addr
	Link    string
	MTU     int
}

// TunnelNetworks reads spec.encapsulation.networks.
func TunnelNetworks(e networkv1alpha1.Encapsulation) ([]netip.Prefix, error) {
	networks := make([]netip.Prefix, 0, len(e.Networks))
	for i, text := range e.Networks {
		network, err := text.Prefix()
		if err != nil {
			return nil, fmt.Errorf("spec.encapsulation.networks[%d]: %w", i, err)
		}
		networks = append(networks, network)
	}
	return networks, nil
}

// TunnelAddresses chooses the host's address in each network of tunnels, in the order of the networks. It prefers an
// address that is in use already, then the lowest. The result is empty if the host has no address in any of the networks.
func TunnelAddresses(networks []netip.Prefix, have []LinkAddress, inUse []netip.Addr) (chosen []LinkAddress) {
	for _, network := range networks {
		inside := slices.DeleteFunc(slices.Clone(have), func(a LinkAddress) bool {
			return !network.Contains(a.Address) || slices.ContainsFunc(chosen, func(c LinkAddress) bool { return c.Address == a.Address })
		})
		slices.SortFunc(inside, func(a, b LinkAddress) int {
			return cmp.Or(order(inUse, a.Address)-order(inUse, b.Address), a.Address.Compare(b.Address))
		})
		if len(inside) > 0 {
			chosen = append(chosen, inside[0])
		}
	}
	return chosen
}

// order returns 0 for addresses in use and 1 for others.
func order(inUse []netip.Addr, a netip.Addr) int {
	if slices.Contains(inUse, a) {
		return 0
	}
	return 1
}

// TunnelOf returns the address to which other nodes tunnel the packets of a logical port, if the node has several. A
// port keeps its address while the node's addresses stay. On a node with one address, ovn-controller ignores the name of
// another, which an interface may still have.
func TunnelOf(interfaceID string, addresses []netip.Addr) string {
	if len(addresses) < 2 {
		return ""
	}
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(interfaceID))
	return addresses[int(hash.Sum32()%uint32(len(addresses)))].String()
}
