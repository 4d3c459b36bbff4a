package render

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/weft-network/weft/pkg/install/member"
)

// Observed is the observed state of a cluster's members.
type Observed struct {
	Place Place
	// Clusters are the recorded cluster IDs by database. It is empty if no cluster exists.
	Clusters map[string]string
	// Former are the IDs of clusters that have ended. Files of these clusters are outdated, except on the first member, which was
	// the last one of the cluster and may not have begun to stand alone.
	Former []string
	// States are the members' replies by node. Members that did not reply are absent.
	States map[string]member.State
}

// Decision is what the operator does about an Observed state.
type Decision struct {
	// Clusters are the IDs to record before any order is sent.
	Clusters map[string]string
	// Orders are the members' orders by node.
	Orders map[string]member.Order
	// Conflict says why there are no orders. It is empty without a conflict.
	Conflict string
	// Dissolved means that the first member is the only one of its clusters and has stored that, so that the clusters may end.
	Dissolved bool
}

// Decide selects the members that create or join each database's cluster, and the servers to remove from it. A
// database never gets two clusters: a cluster is created only if no ID was ever recorded, every member has replied,
// and no member has a file of a cluster. Its ID is recorded before any other member joins.
func Decide(o Observed) Decision {
	d := Decision{Clusters: maps.Clone(o.Clusters), Orders: map[string]member.Order{}}
	if d.Clusters == nil {
		d.Clusters = map[string]string{}
	}
	if o.Place.Dissolving && len(d.Clusters) == 0 {
		return d // they have ended, and the place is older than that
	}
	var peers []member.Peer
	for _, m := range o.Place.Members {
		peers = append(peers, member.Peer{Node: m.Node, Address: m.Addresses[0].String()})
	}
	for _, m := range o.Place.Members {
		d.Orders[m.Node] = member.Order{Self: m.Node, Peers: peers, Databases: map[string]member.DatabaseOrder{}}
	}
	for _, database := range slices.Sorted(maps.Keys(member.Databases)) {
		if conflict := o.decide(database, &d); conflict != "" {
			return Decision{Clusters: d.Clusters, Conflict: conflict}
		}
	}
	if o.Place.Dissolving && len(o.Place.Members) > 0 {
		o.dissolve(&d)
	}
	return d
}

func (o Observed) decide(database string, d *Decision) (conflict string) {
	made := o.clusters(database)
	cluster := d.Clusters[database]
	if cluster == "" && len(made) > 1 {
		return fmt.Sprintf("%s: members have files of different clusters: %s", member.Databases[database], strings.Join(made, " and "))
	}
	if cluster == "" && len(made) == 1 {
		cluster = made[0]
		d.Clusters[database] = cluster
	}
	leader := o.leader(database, cluster)
	for i, m := range o.Place.Members {
		d.Orders[m.Node].Databases[database] = member.DatabaseOrder{
			Cluster: cluster,
			Create:  cluster == "" && i == 0 && len(o.States) == len(o.Place.Members),
			Discard: o.stale(database, cluster, m.Node, leader),
		}
	}
	if leader != "" {
		order := d.Orders[leader].Databases[database]
		order.Kick = o.kick(database, leader)
		d.Orders[leader].Databases[database] = order
	}
	return ""
}

// clusters returns the IDs of the clusters in the members' files.
func (o Observed) clusters(database string) []string {
	found := map[string]bool{}
	for node, s := range o.States {
		if id := s.Databases[database].File.Cluster; id != "" && !o.outdated(node, id) {
			found[id] = true
		}
	}
	return slices.Sorted(maps.Keys(found))
}

// outdated reports whether a node's file belongs to a cluster that has ended.
func (o Observed) outdated(node, cluster string) bool {
	return slices.Contains(o.Former, cluster) && node != o.Place.Members[0].Node
}

// leader returns the member that leads a majority of the cluster, or "" if no such member replied.
func (o Observed) leader(database, cluster string) string {
	for _, m := range o.Place.Members {
		s := o.States[m.Node].Databases[database]
		if s.Leads && s.Connected && s.File.Cluster == cluster && o.connected(database, cluster) > len(s.Servers)/2 {
			return m.Node
		}
	}
	return ""
}

// connected counts the members that are connected to a leader of the cluster.
func (o Observed) connected(database, cluster string) int {
	n := 0
	for _, s := range o.States {
		if s.Databases[database].Connected && s.Databases[database].File.Cluster == cluster {
			n++
		}
	}
	return n
}

// nodeAt returns the member whose server has this raft address, or "".
func (o Observed) nodeAt(database, address string) string {
	for _, m := range o.Place.Members {
		if member.Raft(member.Run, m.Node, database) == address {
			return m.Node
		}
	}
	return ""
}

// stale returns the server ID in a member's file if that server no longer belongs to the cluster: it was removed
// while it was away, or its file belongs to another cluster. It returns "" unless the cluster works without that
// member.
func (o Observed) stale(database, cluster, node, leader string) string {
	s, answered := o.States[node]
	have := s.Databases[database]
	if answered && have.File.Cluster != cluster && o.outdated(node, have.File.Cluster) {
		return have.File.Server
	}
	if !answered || leader == "" || node == leader || have.File.Kind != member.Clustered || have.Connected {
		return ""
	}
	if have.File.Cluster != cluster {
		return have.File.Server
	}
	// A server that has left does not answer. A server that joins has an order to do so.
	hasLeft := have.Status == "" && o.States[node].Order.Databases[database].Cluster == ""
	away := strings.HasPrefix(have.Status, "disconnected") || hasLeft
	if !away || contains(o.States[leader].Databases[database].Servers, have.File.Server) {
		return ""
	}
	return have.File.Server
}

// contains reports whether servers has the server with this ID.
func contains(servers []member.Listed, id string) bool {
	return slices.ContainsFunc(servers, func(s member.Listed) bool { return s.ID != "" && strings.HasPrefix(id, s.ID) })
}

// kick returns the first server without a file on any member: its node is gone, or its disk was lost and the node has
// joined again.
func (o Observed) kick(database, leader string) []string {
	servers := slices.Clone(o.States[leader].Databases[database].Servers)
	slices.SortFunc(servers, func(a, b member.Listed) int { return cmp.Compare(a.Address, b.Address) })
	for _, s := range servers {
		node := o.nodeAt(database, s.Address)
		if node == "" {
			return []string{s.Address}
		}
		have := o.States[node].Databases[database]
		if have.Connected && have.File.Server != "" && !strings.HasPrefix(have.File.Server, s.ID) {
			return []string{s.ID}
		}
	}
	return nil
}
