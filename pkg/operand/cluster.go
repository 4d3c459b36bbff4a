package operand

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/weft-network/weft/pkg/member"
)

// Observed is what is known of a cluster's members.
type Observed struct {
	Place Place
	// Clusters are the IDs that were noted, by database; none: no cluster was ever made.
	Clusters map[string]string
	// States are the answers of members, by node; who did not answer is missing.
	States map[string]member.State
}

// Decision is what is done about it.
type Decision struct {
	// Clusters are the IDs to be noted, before any order is given.
	Clusters map[string]string
	// Orders are for each member, by node.
	Orders map[string]member.Order
	// Conflict says why there are none; empty: there is no conflict.
	Conflict string
}

// Decide says who makes a database's cluster, who joins it, and which servers are removed from it. Its rule is that two clusters of one database never come to
// be: one is made only where none was ever noted, every member has answered, and none has a file of one. It is noted before anybody else joins.
func Decide(o Observed) Decision {
	d := Decision{Clusters: maps.Clone(o.Clusters), Orders: map[string]member.Order{}}
	if d.Clusters == nil {
		d.Clusters = map[string]string{}
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
	return d
}

func (o Observed) decide(database string, d *Decision) (conflict string) {
	made := o.made(database)
	cluster := d.Clusters[database]
	if cluster == "" && len(made) > 1 {
		return fmt.Sprintf("%s: there are clusters %s", member.Databases[database], strings.Join(made, " and "))
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

// made are the clusters of which members have a file.
func (o Observed) made(database string) []string {
	found := map[string]bool{}
	for _, s := range o.States {
		if id := s.Databases[database].File.Cluster; id != "" {
			found[id] = true
		}
	}
	return slices.Sorted(maps.Keys(found))
}

// leader is the member that leads and is followed by a majority; empty: none of whom one hears.
func (o Observed) leader(database, cluster string) string {
	for _, m := range o.Place.Members {
		s := o.States[m.Node].Databases[database]
		if s.Leads && s.Connected && s.File.Cluster == cluster && o.connected(database, cluster) > len(s.Servers)/2 {
			return m.Node
		}
	}
	return ""
}

// connected counts members that hear a leader.
func (o Observed) connected(database, cluster string) int {
	n := 0
	for _, s := range o.States {
		if s.Databases[database].Connected && s.Databases[database].File.Cluster == cluster {
			n++
		}
	}
	return n
}

// nodeAt is the member whose server of a database has an address; empty: no member's.
func (o Observed) nodeAt(database, address string) string {
	for _, m := range o.Place.Members {
		if member.Raft(member.Run, m.Node, database) == address {
			return m.Node
		}
	}
	return ""
}

// stale is the server of a member's file where that is none of the cluster's any more: it was removed while it was away, or is of another cluster. The cluster
// must be at work without it.
func (o Observed) stale(database, cluster, node, leader string) string {
	s, answered := o.States[node]
	have := s.Databases[database]
	if !answered || leader == "" || node == leader || have.File.Kind != member.Clustered || have.Connected {
		return ""
	}
	if have.File.Cluster != cluster {
		return have.File.Server
	}
	if !strings.HasPrefix(have.Status, "disconnected") || knows(o.States[leader].Databases[database].Servers, have.File.Server) {
		return ""
	}
	return have.File.Server
}

func knows(servers []member.Listed, id string) bool {
	return slices.ContainsFunc(servers, func(s member.Listed) bool { return s.ID != "" && strings.HasPrefix(id, s.ID) })
}

// kick is the first server of which no member's node has the file: its node is gone, or its disk was lost and the node has joined again.
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
