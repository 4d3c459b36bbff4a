package render

import (
	"slices"

	"github.com/weft-network/weft/pkg/install/member"
)

// dissolve changes the orders of a working cluster so that the cluster ends: all members but the first leave, one at a time
// and the last slot first. A member that has left puts its file away. A member that does not reply is removed
// from the cluster. When the first member is alone in both clusters, it stores that, and then the clusters may end.
func (o Observed) dissolve(d *Decision) {
	first := o.Place.Members[0].Node
	alone := true
	for database := range member.Databases {
		alone = o.depart(database, first, d) && alone
	}
	if !alone {
		return
	}
	order := d.Orders[first]
	for database := range member.Databases {
		order.Databases[database] = member.DatabaseOrder{Alone: true}
	}
	d.Orders[first] = order
	d.Dissolved = !NeedsOrder(order, o.States[first])
}

// depart changes the orders of the members that leave a database's cluster. It reports whether the first member is alone.
func (o Observed) depart(database, first string, d *Decision) (alone bool) {
	leader := o.leader(database, d.Clusters[database])
	servers := o.States[leader].Databases[database].Servers
	if leader == "" || !o.States[first].Databases[database].Connected || !listed(servers, database, first) {
		return false // without a majority nobody can leave, and without the first member nobody may
	}
	alone = len(servers) == 1 && leader == first
	moved := false
	for _, m := range slices.Backward(o.Place.Members[1:]) {
		state, answered := o.States[m.Node]
		have := state.Databases[database]
		order := d.Orders[m.Node]
		isListed := listed(servers, database, m.Node)
		switch {
		case !isListed && (!answered || have.File.Kind == ""): // it is gone, or has put its file away
			order.Databases[database] = member.DatabaseOrder{}
		case !isListed:
			order.Databases[database] = member.DatabaseOrder{Discard: have.File.Server}
			alone = false
		case moved:
			alone = false
		case have.Connected:
			order.Databases[database] = member.DatabaseOrder{Leave: true}
			moved, alone = true, false
		default: // it does not reply, or lost its disk or its connection
			kick := d.Orders[leader].Databases[database]
			kick.Kick = []string{member.Raft(member.Run, m.Node, database)}
			d.Orders[leader].Databases[database] = kick
			moved, alone = true, false
		}
	}
	return alone
}

// listed reports whether the cluster has a server of a node.
func listed(servers []member.Listed, database, node string) bool {
	return slices.ContainsFunc(servers, func(s member.Listed) bool { return s.Address == member.Raft(member.Run, node, database) })
}
