package facts

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

// Carrier is a node that may carry egress IPs.
type Carrier struct {
	Node string
	// Networks are the networks of the node's link to the outside, with the node's own addresses; in Local mode of all its
	// links.
	Networks []netip.Prefix
	// Families are the address families of pods: true for IPv4 and false for IPv6.
	Families []bool
	// Router means that the node has a gateway router.
	Router bool
	// Unreachable means that the node does not respond while another carrier does.
	Unreachable bool
	// Carries counts the addresses of other EgressIPs that the node carries.
	Carries int
}

// Assignable reports whether a node may carry egress IPs: it has the label, is schedulable and is not being deleted.
func Assignable(node *corev1.Node) bool {
	return carries(node) && !node.Spec.Unschedulable && node.DeletionTimestamp.IsZero()
}

// carries reports whether a node has the label of nodes that may carry egress IPs.
func carries(node *corev1.Node) bool {
	_, labelled := node.Labels[networkv1alpha1.EgressAssignableLabel]
	return labelled
}

// Assignment is an address and the node that carries it.
type Assignment struct {
	Address netip.Addr
	Node    string
}

// Unassigned is an address without a node, and the reason.
type Unassigned struct {
	Address         netip.Addr
	Reason, Message string
}

// AssignEgressIPs chooses the nodes that carry the addresses of one EgressIP. An address stays on its node while that
// node can carry it. Any other address goes to the node that carries the fewest. Addresses of one family go to
// different nodes. taken returns the owner of an address that is in use, or "".
//
// former are addresses that addresses had before. As many of them are kept as addresses cannot be used; a kept address is
// assigned after the others.
func AssignEgressIPs(addresses, former []netip.Addr, current []Assignment, carriers []Carrier,
	taken func(netip.Addr) string) (assigned []Assignment, unassigned []Unassigned, kept []netip.Addr) {
	c := egressChoice{current, carriers, taken, map[netip.Addr]string{}}
	unassigned = c.assign(addresses)
	kept = c.keep(former, unassigned)
	unassigned = append(unassigned, c.assign(kept)...)
	for _, a := range slices.Concat(addresses, kept) {
		if node := c.used[a]; node != "" {
			assigned = append(assigned, Assignment{a, node})
		}
	}
	return assigned, unassigned, kept
}

// egressChoice is the state of AssignEgressIPs: used has the node of each address that was assigned.
type egressChoice struct {
	current  []Assignment
	carriers []Carrier
	taken    func(netip.Addr) string
	used     map[netip.Addr]string
}

// assign assigns addresses to nodes, and returns the addresses that no node can carry.
func (c egressChoice) assign(addresses []netip.Addr) (unassigned []Unassigned) {
	var open []netip.Addr
	for _, a := range addresses {
		if whose := c.taken(a); whose != "" {
			unassigned = append(unassigned, Unassigned{a, networkv1alpha1.ReasonAddressInUse, whose})
		} else if c.stays(a) {
			c.used[a] = nodeOf(c.current, a)
		} else {
			open = append(open, a)
		}
	}
	for _, a := range open {
		if best := choose(a, c.carriers, c.used); best != "" {
			c.used[a] = best
			continue
		}
		reason, message := whyNot(a, c.carriers)
		unassigned = append(unassigned, Unassigned{a, reason, message})
	}
	return unassigned
}

// stays reports whether the node that carries an address can go on to carry it.
func (c egressChoice) stays(a netip.Addr) bool {
	node := nodeOf(c.current, a)
	i := slices.IndexFunc(c.carriers, func(c Carrier) bool { return c.Node == node })
	return i >= 0 && c.carriers[i].can(a) && !doubles(c.used, a, node)
}

// keep chooses the former addresses that stay in use. It prefers addresses that stay on their nodes.
func (c egressChoice) keep(former []netip.Addr, unassigned []Unassigned) []netip.Addr {
	var staying, moving, unusable []netip.Addr
	for _, a := range former {
		if c.taken(a) == "" && c.stays(a) {
			staying = append(staying, a)
		} else if c.taken(a) == "" {
			moving = append(moving, a)
		}
	}
	for _, u := range unassigned {
		waits := c.taken(u.Address) == "" && slices.ContainsFunc(c.carriers, func(n Carrier) bool { return n.can(u.Address) })
		if !waits { // for a node of its own
			unusable = append(unusable, u.Address)
		}
	}
	return keepFormer(append(staying, moving...), unusable, slices.Collect(maps.Keys(c.used)))
}

// keepFormer chooses a former address for each address that cannot be used: of its family, or else of a family that used lacks.
func keepFormer(former, unusable, used []netip.Addr) (kept []netip.Addr) {
	for _, u := range unusable {
		i := slices.IndexFunc(former, func(a netip.Addr) bool { return a.Is4() == u.Is4() })
		if i < 0 {
			i = slices.IndexFunc(former, func(a netip.Addr) bool {
				return !slices.ContainsFunc(used, func(b netip.Addr) bool { return a.Is4() == b.Is4() })
			})
		}
		if i >= 0 {
			kept, former = append(kept, former[i]), slices.Delete(slices.Clone(former), i, i+1)
		}
	}
	return kept
}

// CarrierOf computes a carrier from a node's gateway.
func CarrierOf(g Gateway) Carrier {
	c := Carrier{Node: g.Node.Name, Networks: slices.Concat(g.Addresses, g.Further), Router: g.HasRouter() || g.HasEgressRouter()}
	for _, join := range g.Join {
		c.Families = append(c.Families, join.Addr().Is4())
	}
	return c
}

func nodeOf(current []Assignment, address netip.Addr) string {
	for _, c := range current {
		if c.Address == address {
			return c.Node
		}
	}
	return ""
}

// can reports whether a node can carry an address.
func (c Carrier) can(address netip.Addr) bool {
	return c.Router && !c.Unreachable && c.on(address) && slices.Contains(c.Families, address.Is4())
}

// on reports whether an address is in a network of the node's link.
func (c Carrier) on(address netip.Addr) bool {
	return slices.ContainsFunc(c.Networks, func(n netip.Prefix) bool { return n.Masked().Contains(address) })
}

// IsOfAll reports whether an address is a broadcast or network address of an interface's network: the first, which
// for IPv6 is the anycast address of all routers, and for IPv4 also the last.
func IsOfAll(own netip.Prefix, address netip.Addr) bool {
	if own.Bits() >= own.Addr().BitLen()-1 || !own.Contains(address) {
		return false
	}
	next := address.Next()
	return address == own.Masked().Addr() || address.Is4() && (!next.IsValid() || !own.Contains(next))
}

// doubles reports whether a node already carries another address of the family.
func doubles(used map[netip.Addr]string, address netip.Addr, node string) bool {
	for other, at := range used {
		if at == node && other.Is4() == address.Is4() {
			return true
		}
	}
	return false
}

// choose returns the node for an address, or "".
func choose(address netip.Addr, carriers []Carrier, used map[netip.Addr]string) string {
	load := func(c Carrier) int {
		n := c.Carries
		for _, at := range used {
			if at == c.Node {
				n++
			}
		}
		return n
	}
	var best *Carrier
	for i := range carriers {
		c := &carriers[i]
		if !c.can(address) || doubles(used, address, c.Node) {
			continue
		}
		if best == nil || cmp.Or(cmp.Compare(load(*c), load(*best)), strings.Compare(c.Node, best.Node)) < 0 {
			best = c
		}
	}
	if best == nil {
		return ""
	}
	return best.Node
}

// whyNot returns why no node can carry an address. It names the last condition that some node meets.
func whyNot(address netip.Addr, carriers []Carrier) (reason, message string) {
	if len(carriers) == 0 {
		return networkv1alpha1.ReasonNoAssignableNode, "no node that takes pods has the label " + networkv1alpha1.EgressAssignableLabel
	}
	near := slices.DeleteFunc(slices.Clone(carriers), func(c Carrier) bool { return !c.on(address) })
	if len(near) == 0 {
		return networkv1alpha1.ReasonNotOnNodeNetwork, "the address is in no network of the link to the outside of " +
			carrierNames(carriers)
	}
	if !slices.ContainsFunc(near, func(c Carrier) bool { return !c.Router || slices.Contains(c.Families, address.Is4()) }) {
		return networkv1alpha1.ReasonNoAssignableNode, "pods have no " + familyName(address) + " addresses"
	}
	with := func(is func(Carrier) bool) []Carrier {
		return slices.DeleteFunc(slices.Clone(near), func(c Carrier) bool { return !is(c) })
	}
	if silent := with(func(c Carrier) bool { return c.Router && c.Unreachable }); len(silent) > 0 {
		return networkv1alpha1.ReasonNodesUnreachable, carrierNames(silent) +
			" do not respond, and no other node can carry the address"
	}
	if ready := with(func(c Carrier) bool { return c.Router }); len(ready) > 0 {
		return networkv1alpha1.ReasonNoAssignableNode,
			fmt.Sprintf("%s carry another %s address of this EgressIP each", carrierNames(ready), familyName(address))
	}
	return networkv1alpha1.ReasonNoAssignableNode, carrierNames(near) + " have no gateway router yet"
}

func familyName(address netip.Addr) string {
	if address.Is4() {
		return "IPv4"
	}
	return "IPv6"
}

func carrierNames(carriers []Carrier) string {
	const named = 5
	var texts []string
	for _, c := range carriers {
		texts = append(texts, c.Node)
	}
	slices.Sort(texts)
	if more := len(texts) - named; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(texts[:named], ", "), more)
	}
	return strings.Join(texts, ", ")
}
