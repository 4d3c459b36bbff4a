package clusternetwork

import (
	"fmt"
	"slices"
	"strings"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/health"
)

const centralObject = "StatefulSet/weft-central"

// memberProblems lists the problems of the members of all databases. Without the databases of a zone, the rest of the network works.
func memberProblems(d *networkv1alpha1.DatabasesStatus, zones []networkv1alpha1.ZoneStatus) []networkv1alpha1.Problem {
	found := problemsOfMembers(d, centralObject, "", networkv1alpha1.StateUnavailable)
	for _, z := range zones {
		found = append(found, problemsOfMembers(z.Databases, zoneCentral(z.Name), " of zone "+string(z.Name), networkv1alpha1.StateDegraded)...)
	}
	return found
}

// problemsOfMembers lists the problems of the members of a pair of databases. of names their zone, like " of zone east". lost is the
// state without a quorum.
func problemsOfMembers(d *networkv1alpha1.DatabasesStatus, object, of string, lost networkv1alpha1.AreaState) (
	found []networkv1alpha1.Problem) {
	if d == nil {
		return nil
	}
	add := func(state networkv1alpha1.AreaState, reason, object, format string, args ...any) {
		found = append(found, health.New(networkv1alpha1.AreaDatabases, state, reason, object, fmt.Sprintf(format, args...)))
	}
	if d.Conflict != "" {
		add(networkv1alpha1.StateDegraded, networkv1alpha1.ReasonMembersConflict, object,
			"no member of the databases%s is configured: %s", of, d.Conflict)
	}
	for _, database := range []struct {
		name string
		role func(networkv1alpha1.DatabaseMember) networkv1alpha1.MemberRole
	}{
		{"northbound", func(m networkv1alpha1.DatabaseMember) networkv1alpha1.MemberRole { return m.Northbound }},
		{"southbound", func(m networkv1alpha1.DatabaseMember) networkv1alpha1.MemberRole { return m.Southbound }},
	} {
		in := func(roles ...networkv1alpha1.MemberRole) (nodes []string) {
			for _, m := range d.Members {
				if slices.Contains(roles, database.role(m)) {
					nodes = append(nodes, m.Node)
				}
			}
			return nodes
		}
		away := in(networkv1alpha1.MemberUnknown, networkv1alpha1.MemberDisconnected)
		connected := in(networkv1alpha1.MemberLeader, networkv1alpha1.MemberFollower)
		joining := in(networkv1alpha1.MemberJoining)
		switch {
		case len(connected) == 0 && len(in(networkv1alpha1.MemberDisconnected)) > 0:
			add(lost, networkv1alpha1.ReasonQuorumLost, object,
				"the %s database%s has no leader and accepts no changes; unavailable members: %s. Existing pods keep their network",
				database.name, of, strings.Join(away, ", "))
		case len(connected) == 0:
			add(networkv1alpha1.StateProgressing, networkv1alpha1.ReasonMembersStarting, object,
				"the %s database%s has no leader yet", database.name, of)
		default:
			for _, node := range away {
				add(networkv1alpha1.StateDegraded, networkv1alpha1.ReasonMemberUnavailable, "Node/"+node,
					"the %s database's member on node %s%s is unavailable; the others (%s) continue", database.name, node, of,
					strings.Join(connected, ", "))
			}
			if len(joining) > 0 {
				add(networkv1alpha1.StateProgressing, networkv1alpha1.ReasonMembersStarting, object,
					"members are joining the %s database%s: %s", database.name, of, strings.Join(joining, ", "))
			}
		}
	}
	var leaving []string
	for _, m := range d.Members {
		if m.Northbound == networkv1alpha1.MemberLeaving {
			leaving = append(leaving, m.Node)
		}
	}
	if len(leaving) > 0 {
		add(networkv1alpha1.StateProgressing, networkv1alpha1.ReasonMembersLeaving, object,
			"members leave the databases%s, until one is left: %s", of, strings.Join(leaving, ", "))
	}
	if placed := len(d.Members); placed < int(d.Wanted) {
		add(networkv1alpha1.StateDegraded, networkv1alpha1.ReasonMembersUnplaced, object,
			"%d of %d members of the databases%s have a node", placed, d.Wanted, of)
	}
	return found
}
