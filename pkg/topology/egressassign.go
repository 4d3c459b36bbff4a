package topology

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

// Carrier is a node that may carry egress IPs.
type Carrier struct {
	Node string
	// Networks are those of its link to the outside, with the node's own addresses in them.
	Networks []netip.Prefix
	// Families are true for IPv4 and false for IPv6: those that pods have.
	Families []bool
	// Router: it has a gateway router. Local: it has none, since its gateway's mode is Local.
	Router, Local bool
	// Unreachable: it does not answer, while another carrier does.
	Unreachable bool
	// Carries counts the egress IPs of others that it carries.
	Carries int
}

// Assignable reports whether a node may carry egress IPs: it has the label, takes pods and is not on its way out.
func Assignable(node *corev1.Node) bool {
	_, labelled := node.Labels[networkv1alpha1.EgressAssignableLabel]
	return labelled && !node.Spec.Unschedulable && node.DeletionTimestamp.IsZero()
}

// Assignment is which node carries which address.
type Assignment struct {
	Address netip.Addr
	Node    string
}

// Unassigned is an address that no node carries, and why.
type Unassigned struct {
	Address         netip.Addr
	Reason, Message string
}

// Assign chooses the nodes that carry the addresses of one EgressIP. What a node carries and can go on to carry stays. The others go to the node
// that carries the fewest, of one family each to another. taken says whose an address is already; empty: nobody's.
func Assign(addresses []netip.Addr, current []Assignment, carriers []Carrier, taken func(netip.Addr) string) (assigned []Assignment, unassigned []Unassigned) {
	var open []netip.Addr
	used := map[netip.Addr]string{}
	for _, a := range addresses {
		if whose := taken(a); whose != "" {
			unassigned = append(unassigned, Unassigned{a, networkv1alpha1.ReasonAddressInUse, whose})
			continue
		}
		node := nodeOf(current, a)
		if i := slices.IndexFunc(carriers, func(c Carrier) bool { return c.Node == node }); i >= 0 && carriers[i].can(a) && !doubles(used, a, node) {
			used[a] = node
			continue
		}
		open = append(open, a)
	}
	for _, a := range open {
		if best := choose(a, carriers, used); best != "" {
			used[a] = best
			continue
		}
		reason, message := whyNot(a, carriers)
		unassigned = append(unassigned, Unassigned{a, reason, message})
	}
	for _, a := range addresses {
		if node := used[a]; node != "" {
			assigned = append(assigned, Assignment{a, node})
		}
	}
	return assigned, unassigned
}

// CarrierOf reads of a node's gateway what a carrier is made of.
func CarrierOf(g Gateway) Carrier {
	c := Carrier{Node: g.Node.Name, Networks: g.Addresses, Router: g.HasRouter(), Local: g.Mode == networkv1alpha1.GatewayLocal}
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

// doubles reports whether a node carries another address of the family already.
func doubles(used map[netip.Addr]string, address netip.Addr, node string) bool {
	for other, at := range used {
		if at == node && other.Is4() == address.Is4() {
			return true
		}
	}
	return false
}

// choose returns the node for an address; empty if there is none.
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

// whyNot says why no node can carry an address: what the most of the way to it is done for.
func whyNot(address netip.Addr, carriers []Carrier) (reason, message string) {
	if len(carriers) == 0 {
		return networkv1alpha1.ReasonNoAssignableNode, "no node that takes pods has the label " + networkv1alpha1.EgressAssignableLabel
	}
	near := slices.DeleteFunc(slices.Clone(carriers), func(c Carrier) bool { return !c.on(address) })
	if len(near) == 0 {
		return networkv1alpha1.ReasonNotOnNodeNetwork, "it is in no network of the link to the outside of " + carrierNames(carriers)
	}
	if !slices.ContainsFunc(near, func(c Carrier) bool { return !c.Router || slices.Contains(c.Families, address.Is4()) }) {
		return networkv1alpha1.ReasonNoAssignableNode, "pods have no " + familyName(address) + " addresses"
	}
	with := func(is func(Carrier) bool) []Carrier {
		return slices.DeleteFunc(slices.Clone(near), func(c Carrier) bool { return !is(c) })
	}
	if silent := with(func(c Carrier) bool { return c.Router && c.Unreachable }); len(silent) > 0 {
		return networkv1alpha1.ReasonNodesUnreachable, carrierNames(silent) + " cannot be reached, and no other node is left that could carry it"
	}
	if local := with(func(c Carrier) bool { return c.Local }); len(local) == len(near) {
		return networkv1alpha1.ReasonUnsupportedGatewayMode, "the gateway mode of " + carrierNames(local) + " is Local: only a node in Shared mode carries egress IPs"
	}
	if ready := with(func(c Carrier) bool { return c.Router }); len(ready) > 0 {
		return networkv1alpha1.ReasonNoAssignableNode, fmt.Sprintf("%s carry another %s address of this EgressIP each", carrierNames(ready), familyName(address))
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
