package pod

import (
	"fmt"
	"net/netip"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/controllers/kind"
	"github.com/weft-network/weft/pkg/ipam"
	"github.com/weft-network/weft/pkg/ipam/alloc"
	"github.com/weft-network/weft/pkg/topology"
)

// place is where a pod's node is.
type place int

const (
	away      place = iota // it has no network, or no agent, yet
	here                   // this operator writes its rows
	elsewhere              // in another zone
)

// surroundings are what a decision needs besides the pod.
type surroundings struct {
	zone  kind.Zone
	place place
	// node is the NodeNetwork of the pod's node. It is only read, and empty if the node has none.
	node *networkv1alpha1.NodeNetwork
	by   selection
	// networks is the generation of the Networks that the node attaches; empty: none.
	networks string

	// What the allocator has of the pod: an assignment on a node if hasAddress, or a claim on a node whose subnets are not known.
	on         string
	assigned   alloc.Assignment
	hasAddress bool
	awaits     bool
	// What the database has: the port of the start, if no unit was applied for the pod since, the chassis of the node's last unit,
	// and whether this process has applied a unit for a pod without an address.
	stored  *topology.PortAssignment
	chassis string
	applied bool
}

// fate is what becomes of a pod.
type fate int

const (
	release fate = iota // its port and its addresses go
	leave               // everything stays as it is
	refuse              // its port and its addresses go, and it waits for the end of a reason
	follow              // it stays in sets with the addresses that it reports
	keep                // its port stays with the addresses that it has
	give                // it gets what it requests
)

// decision is a fate with what it needs.
type decision struct {
	fate fate
	// reason is that of refuse.
	reason error
	// chassis is the port's with keep and give, and assigned what the port has with keep.
	chassis  string
	assigned alloc.Assignment
	// portFirst means that the pod's port goes before it gets addresses.
	portFirst bool
}

// decide decides what becomes of a pod with a network of its own. It has no effects.
func decide(p *request, s *surroundings) decision {
	switch s.place {
	case elsewhere:
		if len(p.reported) == 0 {
			return decision{fate: release}
		}
		return decision{fate: follow}
	case away:
		return decideAway(p, s)
	}
	if reason := checkZone(p, s); reason != nil {
		return decision{fate: refuse, reason: reason} // its elements of sets, from when its node was elsewhere, go
	}
	// A port whose address went with the pod's node, which has returned since, may block another pod that has received the address, while
	// that pod's port blocks this one. Both would wait for ever.
	return decision{fate: give, chassis: s.node.Status.Chassis, portFirst: !s.awaits && s.applied}
}

// decideAway decides about a pod whose node has no network, or no agent, yet. Their arrival enqueues the pod again. A port whose
// address went with its node must not return with a node of that name, because the address may belong to another node
// then. Without an address, the rest of the pod's unit is removed too: its balancers outlive a port that went with
// the node's switch.
func decideAway(p *request, s *surroundings) decision {
	// A static pod has the UID of its file. An assignment of this UID on another node belongs to an earlier pod.
	if !s.hasAddress && !s.awaits || s.hasAddress && s.on != p.node {
		return decision{fate: release}
	}
	// If a unit was applied for the pod, it has the pod's current selection and keeps its chassis. Otherwise the pod has no unit.
	d := decision{fate: keep, chassis: s.chassis, assigned: s.assigned}
	switch {
	case s.stored == nil && (s.chassis == "" || !s.hasAddress):
		return decision{fate: leave}
	case s.stored != nil:
		d.chassis = s.stored.Chassis
	}
	if !s.hasAddress {
		d.assigned = assignmentOf(s.stored)
	}
	return d
}

// assignmentOf returns the assignment that a port has.
func assignmentOf(port *topology.PortAssignment) alloc.Assignment {
	got := alloc.Assignment{Addresses: wholeLength(port.Addresses), MAC: port.MAC, Slot: port.Slot, Floating: port.Floating}
	if got.MAC == nil {
		got.MAC = ipam.MAC(port.Addresses)
	}
	return got
}

// wholeLength returns addresses as networks of one address.
func wholeLength(addresses []netip.Addr) (all []netip.Prefix) {
	for _, address := range addresses {
		all = append(all, netip.PrefixFrom(address, address.BitLen()))
	}
	return all
}

// checkZone returns why a pod in a zone is refused: it requests what only the default zone has. A pod that has its
// address keeps its port, without secondary networks.
func checkZone(p *request, s *surroundings) error {
	if !s.zone.Follows() {
		return nil
	}
	for _, annotation := range networkv1alpha1.FloatingAnnotations() {
		if _, ok := p.pod.Annotations[annotation]; ok {
			return fmt.Errorf("%w: annotation %s: zone %s has no floating addresses; only nodes outside the zones of ClusterNetwork's "+
				"spec.zones have them", errRequest, annotation, s.zone)
		}
	}
	if !s.hasAddress && s.networks != "" {
		return fmt.Errorf("%w: zone %s attaches no secondary networks; only nodes outside the zones of ClusterNetwork's spec.zones do",
			errRequest, s.zone)
	}
	return nil
}

// portOf assembles the port of a pod. Its host ports and its ways out are added by those who read them.
func portOf(p *request, s *surroundings, d decision, t taken) topology.Pod {
	return topology.Pod{
		Namespace: p.name.Namespace, Name: p.name.Name, UID: p.owner.UID(), Node: p.node, Chassis: d.chassis,
		Addresses: ipam.Addresses(t.assigned.Addresses), MAC: t.assigned.MAC, Slot: t.assigned.Slot,
		Floating: t.own, Translated: t.translated,
		Bandwidth: p.bandwidth, RandomHostPorts: p.randomHostPorts, Networks: s.networks,
		EgressIP: s.by.egressIP, NextHops: s.nextHops(), Selected: s.by.selectors,
	}
}
