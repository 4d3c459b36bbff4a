package lbpool

import (
	"fmt"
	"hash/fnv"
	"net/netip"
	"slices"
	"strings"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

// Node is a node that may answer for addresses.
type Node struct {
	Name string
	// Networks are the networks of the node's link to the outside, with the node's own addresses.
	Networks []netip.Prefix
	// Router means that the node's gateway router can answer, ByHost that its host can, in Local mode.
	Router, ByHost bool
	// Healthy means that the node is ready and that its agent responds. Cordoned nodes answer only if no other node can.
	Healthy, Cordoned bool
}

// on reports whether an address is in a network of the node's link.
func (n Node) on(a netip.Addr) bool {
	return slices.ContainsFunc(n.Networks, func(p netip.Prefix) bool { return p.Masked().Contains(a) })
}

// Speaker returns the node that answers for an address, by rendezvous hashing: the loss of a node moves only its own
// addresses. nodes are the nodes that the pool selects. local, if it is not nil, has the nodes with a ready endpoint. If none
// of these nodes is healthy, the address stays at current, because the observer itself may be cut off. Without a node,
// Speaker returns a reason and a message.
func Speaker(a netip.Addr, nodes []Node, local map[string]bool, current string) (node, reason, message string) {
	near := having(nodes, func(n Node) bool { return n.on(a) })
	answering := having(near, func(n Node) bool { return n.Router || n.ByHost })
	able := having(answering, func(n Node) bool { return local == nil || local[n.Name] })
	healthy := having(able, func(n Node) bool { return n.Healthy })
	if best := having(healthy, func(n Node) bool { return !n.Cordoned }); len(best) > 0 {
		healthy = best
	}
	switch {
	case len(healthy) > 0:
		return highest(a, healthy), "", ""
	case slices.ContainsFunc(able, func(n Node) bool { return n.Name == current }):
		return current, "", ""
	case len(able) > 0:
		return highest(a, able), "", ""
	case len(nodes) == 0:
		return "", networkv1alpha1.ReasonNoEligibleNode, "the pool's nodeSelector selects no node"
	case len(near) == 0:
		return "", networkv1alpha1.ReasonNotOnNodeNetwork, "it is in no network of the link to the outside of " + nodeNames(nodes)
	case len(answering) == 0:
		return "", networkv1alpha1.ReasonNoEligibleNode, nodeNames(near) + " have no gateway router, or no agent that can answer, yet"
	}
	return "", networkv1alpha1.ReasonNoLocalEndpoints, "externalTrafficPolicy is Local, and no ready endpoint is on " + nodeNames(answering)
}

func having(nodes []Node, is func(Node) bool) []Node {
	return slices.DeleteFunc(slices.Clone(nodes), func(n Node) bool { return !is(n) })
}

// highest returns the node with the highest hash of its name and the address.
func highest(a netip.Addr, nodes []Node) (best string) {
	var most uint64
	for _, n := range nodes {
		h := fnv.New64a()
		_, _ = h.Write(append([]byte(n.Name+" "), a.AsSlice()...)) // it never fails
		if sum := mix(h.Sum64()); best == "" || sum > most || sum == most && n.Name < best {
			best, most = n.Name, sum
		}
	}
	return best
}

// mix spreads the bits of a hash, because FNV's high bits follow the last bytes too little.
func mix(x uint64) uint64 {
	x = (x ^ x>>33) * 0xff51afd7ed558ccd
	x = (x ^ x>>33) * 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}

func nodeNames(nodes []Node) string {
	const named = 5
	var texts []string
	for _, n := range nodes {
		texts = append(texts, n.Name)
	}
	slices.Sort(texts)
	if more := len(texts) - named; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(texts[:named], ", "), more)
	}
	return strings.Join(texts, ", ")
}
