package clusternetwork

import (
	"strings"
	"testing"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

func TestMembersInProblems(t *testing.T) {
	const leader, follower, joining, cut, silent = networkv1alpha1.MemberLeader, networkv1alpha1.MemberFollower,
		networkv1alpha1.MemberJoining,
		networkv1alpha1.MemberDisconnected, networkv1alpha1.MemberUnknown
	members := func(roles ...networkv1alpha1.MemberRole) *networkv1alpha1.DatabasesStatus {
		d := &networkv1alpha1.DatabasesStatus{Wanted: 3}
		for i, role := range roles {
			d.Members = append(d.Members, networkv1alpha1.DatabaseMember{Node: []string{"a", "b", "c"}[i],
				Northbound: role, Southbound: leader})
		}
		return d
	}
	conflict := members(leader, follower, follower)
	conflict.Conflict = "there are two"
	for name, c := range map[string]struct {
		d    *networkv1alpha1.DatabasesStatus
		want string // state reason object, and words of the message
	}{
		"one member":     {nil, ""},
		"all work":       {members(leader, follower, follower), ""},
		"one is away":    {members(leader, follower, silent), "Degraded MemberUnavailable Node/c: (a, b) continue"},
		"one is cut off": {members(leader, cut, follower), "Degraded MemberUnavailable Node/b: (a, c) continue"},
		"the quorum is lost": {members(cut, silent, silent),
			"Unavailable QuorumLost StatefulSet/weft-central: unavailable members: a, b, c"},
		"one joins": {members(leader, follower, joining),
			"Progressing MembersStarting StatefulSet/weft-central: joining the northbound database: c"},
		"the first start": {members(silent, silent, silent), "Progressing MembersStarting StatefulSet/weft-central: no leader yet"},
		"two nodes":       {members(leader, follower), "Degraded MembersUnplaced StatefulSet/weft-central: 2 of 3 members"},
		"two clusters":    {conflict, "Degraded MembersConflict StatefulSet/weft-central: there are two"},
	} {
		found := memberProblems(c.d, nil)
		if c.want == "" {
			if len(found) > 0 {
				t.Errorf("%s: %+v", name, found)
			}
			continue
		}
		head, words, _ := strings.Cut(c.want, ": ")
		if len(found) != 1 {
			t.Errorf("%s: %+v", name, found)
			continue
		}
		p := found[0]
		if have := string(p.State) + " " + p.Reason + " " + p.Object; have != head ||
			!strings.Contains(p.Message, words) || p.NextStep == "" || p.Area != networkv1alpha1.AreaDatabases {
			t.Errorf("%s: %s: %s (%s)", name, have, p.Message, p.NextStep)
		}
	}
}

// The members of a zone's databases are reported like others, with the zone's name. A lost quorum there concerns only the zone.
func TestMembersOfZonesInProblems(t *testing.T) {
	lost := &networkv1alpha1.DatabasesStatus{Wanted: 3}
	for _, node := range []string{"a", "b", "c"} {
		lost.Members = append(lost.Members, networkv1alpha1.DatabaseMember{Node: node,
			Northbound: networkv1alpha1.MemberDisconnected, Southbound: networkv1alpha1.MemberLeader})
	}
	found := memberProblems(nil, []networkv1alpha1.ZoneStatus{{Name: "west"}, {Name: "east", Databases: lost}})
	if len(found) != 1 {
		t.Fatalf("problems %+v", found)
	}
	p := found[0]
	if p.State != networkv1alpha1.StateDegraded || p.Reason != networkv1alpha1.ReasonQuorumLost ||
		p.Object != "StatefulSet/weft-central-east" || !strings.Contains(p.Message, "the northbound database of zone east has no leader") {
		t.Errorf("problem %+v", p)
	}
}
