package topology

import (
	"net/netip"

	"github.com/weft-network/weft/pkg/facts"
)

// OVN remembers for affinity_timeout which backend a client has (ovn-nb(5), Load_Balancer). That alone is not enough:
//
//   - OVN drops the packet from which it learns. Flows of the agent let it pass (pkg/agent/learning).
//   - Connections that a client opens at once are balanced before the first one is learned. Therefore the backend follows from
//     the client's address (selection_fields).
//   - A client that comes back after the timeout would then get the same backend again. Therefore the list of backends moves
//     by one place with each turn (facts.AffinityTurn). Clients that OVN remembers stay.
//   - In templates OVN 25.03 loses the backends' ports. Therefore a node whose addresses or backends are its own has a
//     balancer of its own.

// maxAffinity is the longest affinity_timeout, in seconds, because OpenFlow's timeouts have 16 bits.
const maxAffinity = 1<<16 - 1

// renderOnNodes adds the texts of a VIP to each node's own balancer.
func (s service) renderOnNodes(all vips, vip facts.VIP, backends []facts.Backend) {
	for _, node := range s.Nodes {
		text := ""
		if len(backends) > 0 {
			text = backendsOn(node, vip.From, backends, s.Turn)
		}
		for _, address := range addressesOn(node, vip) {
			all.set(balancer{reach: vip.Reach, node: node.Name}, netip.AddrPortFrom(address, vip.Port()).String(), text)
		}
	}
}

// addressesOn returns the addresses of a VIP on a node.
func addressesOn(node facts.ServiceNode, vip facts.VIP) (found []netip.Addr) {
	if !vip.OnNode() {
		return []netip.Addr{vip.Addr()}
	}
	for _, address := range node.Addresses {
		if address.Is4() == vip.Addr().Is4() {
			found = append(found, address)
		}
	}
	return found
}
