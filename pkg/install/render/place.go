package render

import (
	"cmp"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/weft-network/weft/pkg/install/member"
)

// controlPlane is the label of the nodes that are preferred for the databases.
const controlPlane = "node-role.kubernetes.io/control-plane"

// Place says where OVN's databases run.
type Place struct {
	// Wanted is the desired number of members.
	Wanted int
	// Members are the members by slot, each on its own node. There are fewer than Wanted if the cluster has too few
	// nodes.
	Members []Member
	// Dissolving means that the clusters of the databases end: all members but the first leave them.
	Dissolving bool
	// Relays are the relays of the southbound database.
	Relays []Member
	// Zones are the zones with databases of their own.
	Zones []Zone
}

// Member is a node with a member of each database.
type Member struct {
	Node string
	// Addresses are the node's internal addresses, at least one.
	Addresses []netip.Addr
}

// Clustered reports whether the databases are clustered.
func (p Place) Clustered() bool { return p.Wanted > 1 }

// Nodes returns the names of the members' nodes.
func (p Place) Nodes() []string { return nodesOf(p.Members) }

// Addresses returns the addresses of all members.
func (p Place) Addresses() []netip.Addr { return allAddresses(p.Members) }

func nodesOf(members []Member) []string {
	var names []string
	for _, m := range members {
		names = append(names, m.Node)
	}
	return names
}

func allAddresses(members []Member) []netip.Addr {
	var all []netip.Addr
	for _, m := range members {
		all = append(all, m.Addresses...)
	}
	return all
}

// PlaceOf chooses the nodes of the databases. Nodes in before keep their slots while they exist, because their disks
// hold the data. Other slots go to control-plane nodes, then to any node; schedulable nodes come first, then the
// order is by name. There is no member if no node is suitable.
func PlaceOf(before []string, nodes []corev1.Node, wanted int) Place {
	return placeBy(before, nodes, wanted, rank)
}

// placeBy is PlaceOf with another order of preference.
func placeBy(before []string, nodes []corev1.Node, wanted int, rank func(corev1.Node) int) Place {
	place := Place{Wanted: wanted}
	candidates := map[string]corev1.Node{}
	for _, n := range nodes {
		if n.DeletionTimestamp == nil && len(addressesOf(n)) > 0 {
			candidates[n.Name] = n
		}
	}
	chosen := make([]string, max(wanted, 0))
	var free []string
	for i, name := range before {
		if _, there := candidates[name]; there && i < wanted {
			chosen[i] = name
		}
	}
	for name := range candidates {
		if !slices.Contains(chosen, name) {
			free = append(free, name)
		}
	}
	slices.SortFunc(free, func(a, b string) int {
		return cmp.Or(cmp.Compare(rank(candidates[b]), rank(candidates[a])), cmp.Compare(a, b))
	})
	for _, name := range chosen {
		if name == "" && len(free) > 0 {
			name, free = free[0], free[1:]
		}
		if name != "" {
			place.Members = append(place.Members, Member{name, addressesOf(candidates[name])})
		}
	}
	return place
}

// Remaining returns the place of the databases while all members but one leave their clusters. Nodes in before that are gone are
// left out, and no other node gets a member.
func Remaining(before []string, nodes []corev1.Node) Place {
	place := Place{Wanted: member.Slots, Dissolving: true}
	for _, name := range before {
		for _, n := range nodes {
			if n.Name == name && n.DeletionTimestamp == nil && len(addressesOf(n)) > 0 {
				place.Members = append(place.Members, Member{name, addressesOf(n)})
			}
		}
	}
	return place
}

// ranks is more than each result of rank.
const ranks = 4

// rank returns a node's preference; higher is better.
func rank(n corev1.Node) int {
	_, control := n.Labels[controlPlane]
	score := 0
	for _, good := range []bool{control, !n.Spec.Unschedulable} {
		score *= 2
		if good {
			score++
		}
	}
	return score
}

func addressesOf(n corev1.Node) []netip.Addr {
	var found []netip.Addr
	for _, a := range n.Status.Addresses {
		if parsed, err := netip.ParseAddr(a.Address); err == nil && a.Type == corev1.NodeInternalIP {
			found = append(found, parsed)
		}
	}
	return found
}
