package render

import (
	"reflect"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/install/member"
)

// NeedsOrder reports whether a member must receive this order: it follows another one, or the order has a task to
// carry out once.
func NeedsOrder(order member.Order, state member.State) bool {
	for _, d := range order.Databases {
		if len(d.Kick) > 0 || d.Discard != "" || d.Leave {
			return true
		}
	}
	return !reflect.DeepEqual(order, state.Order)
}

// MembersOf returns the members' status. silent maps nodes that did not reply to the error.
func MembersOf(o Observed, silent map[string]string, conflict string) networkv1alpha1.DatabasesStatus {
	status := networkv1alpha1.DatabasesStatus{Wanted: int32(o.Place.Wanted), Conflict: cutText(conflict)}
	if o.Place.Dissolving {
		status.Wanted = 1
	}
	for i, m := range o.Place.Members {
		s, answered := o.States[m.Node]
		if o.Place.Dissolving && i > 0 {
			status.Members = append(status.Members, networkv1alpha1.DatabaseMember{Node: m.Node, Message: cutText(silent[m.Node]),
				Northbound: networkv1alpha1.MemberLeaving, Southbound: networkv1alpha1.MemberLeaving})
			continue
		}
		status.Members = append(status.Members, networkv1alpha1.DatabaseMember{Node: m.Node, Message: cutText(silent[m.Node]),
			Northbound: roleOf(s.Databases["nb"], answered), Southbound: roleOf(s.Databases["sb"], answered)})
	}
	return status
}

// Awaited reports whether the state is about to change: a server is joining, or no database has a leader.
func Awaited(d networkv1alpha1.DatabasesStatus) bool {
	leaders := 0
	for _, m := range d.Members {
		for _, role := range []networkv1alpha1.MemberRole{m.Northbound, m.Southbound} {
			if role == networkv1alpha1.MemberJoining || role == networkv1alpha1.MemberLeaving {
				return true
			}
			if role == networkv1alpha1.MemberLeader {
				leaders++
			}
		}
	}
	return leaders == 0
}

func roleOf(s member.DatabaseState, answered bool) networkv1alpha1.MemberRole {
	switch {
	case !answered:
		return networkv1alpha1.MemberUnknown
	case s.Connected && s.Leads:
		return networkv1alpha1.MemberLeader
	case s.Connected:
		return networkv1alpha1.MemberFollower
	case s.Status == "" || s.Status == "joining cluster":
		return networkv1alpha1.MemberJoining
	}
	return networkv1alpha1.MemberDisconnected
}

// cutText limits the length of an error text in a status.
func cutText(s string) string { return s[:min(len(s), 1024)] }
