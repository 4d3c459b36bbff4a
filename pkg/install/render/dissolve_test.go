package render

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/weft-network/weft/pkg/install/member"
)

func TestRemaining(t *testing.T) {
	gone := node("a")
	gone.Status.Addresses = nil
	for want, nodes := range map[string][]corev1.Node{
		"c a b": {node("a"), node("b"), node("c"), node("d")}, "a b": {node("a"), node("b"), node("d")}, "c": {gone, node("c")}, "": {node("d")},
	} {
		place := Remaining([]string{"c", "a", "b"}, nodes)
		if have := strings.Join(place.Nodes(), " "); have != want || !place.Dissolving || !place.Clustered() {
			t.Errorf("%+v, want %s", place, want)
		}
	}
}

// All members but the first leave, one at a time, and put their files away.
func TestDecideToDissolve(t *testing.T) {
	abc := []string{"a", "b", "c"}
	const left = "" // its server does not answer any more
	dissolving := func() *world {
		w := newWorld("a", "b", "c").recorded()
		w.observed.Place.Dissolving = true
		return w
	}
	for name, c := range map[string]struct {
		world *world
		want  string
	}{
		"all work": {
			dissolving().reports("a", works, true, abc...).reports("b", works, false, abc...).reports("c", works, false, abc...),
			"a joins, b joins, c leaves",
		},
		"the leader leaves, too": {
			dissolving().reports("a", works, false, abc...).reports("b", works, false, abc...).reports("c", works, true, abc...),
			"a joins, b joins, c leaves",
		},
		"one has left": {
			dissolving().reports("a", works, true, "a", "b").reports("b", works, false, "a", "b").reports("c", left, false, abc...),
			"a joins, b leaves, c waits without id-of-c",
		},
		"its file is gone": {
			dissolving().reports("a", works, true, "a", "b").reports("b", works, false, "a", "b").reports("c", "", false),
			"a joins, b leaves, c waits",
		},
		"both have left": {
			dissolving().reports("a", works, true, "a").reports("b", left, false, "a", "b").reports("c", "", false),
			"a joins, b waits without id-of-b, c waits",
		},
		"the first is alone": {
			dissolving().reports("a", works, true, "a").reports("b", "", false).reports("c", "", false),
			"a stands alone, b waits, c waits",
		},
		"another one is alone": { // the first one's server was removed
			dissolving().reports("a", lost, false, abc...).reports("b", works, true, "b").reports("c", "", false),
			"a joins without id-of-a, b joins, c joins",
		},
		"one does not reply": {
			dissolving().reports("a", works, true, abc...).reports("b", works, false, abc...),
			"a joins kicks c, b joins, c joins",
		},
		"one that does not reply has left": {
			dissolving().reports("a", works, true, "a", "b").reports("b", works, false, "a", "b"),
			"a joins, b leaves, c waits",
		},
		"one lost its disk": {
			dissolving().reports("a", works, true, abc...).reports("b", works, false, abc...).reports("c", "", false),
			"a joins kicks c, b joins, c joins",
		},
		"the clusters have ended": {
			func() *world {
				w := dissolving().reports("a", works, true, "a").reports("b", "", false).reports("c", "", false)
				w.observed.Clusters, w.observed.Former = nil, []string{"nb-cluster", "sb-cluster"}
				return w
			}(),
			"",
		},
		"no majority": {
			dissolving().reports("a", lost, false, abc...),
			"a joins, b joins, c joins",
		},
	} {
		d := Decide(c.world.observed)
		if have := orders(t, d); have != c.want {
			t.Errorf("%s:\n%s, want\n%s", name, have, c.want)
		}
		if d.Dissolved {
			t.Errorf("%s: dissolved before the first member knows that it is alone", name)
		}
	}

	w := dissolving().reports("a", works, true, "a").reports("b", "", false).reports("c", "", false)
	first := w.observed.States["a"]
	first.Order = Decide(w.observed).Orders["a"]
	w.observed.States["a"] = first
	if d := Decide(w.observed); !d.Dissolved {
		t.Errorf("not dissolved: %+v", d)
	}
	status := MembersOf(w.observed, nil, "")
	if m := status.Members; status.Wanted != 1 || len(m) != 3 || m[0].Northbound != "Leader" || m[2].Southbound != "Leaving" ||
		!Awaited(status) {
		t.Errorf("%+v", status)
	}
}

// A file of a cluster that has ended is put away, and the databases that stand alone become the next cluster.
func TestFormerClustersAreOutdated(t *testing.T) {
	w := newWorld("a", "b", "c").reports("a", "", false).reports("b", "", false).reports("c", lost, false, "a", "b", "c")
	w.observed.Former = []string{"nb-cluster", "sb-cluster"}
	state := w.observed.States["a"]
	for database := range member.Databases {
		state.Databases[database] = member.DatabaseState{File: member.FileState{Kind: member.Standalone}}
	}
	if have, want := orders(t, Decide(w.observed)), "a creates, b waits, c waits without id-of-c"; have != want {
		t.Errorf("%s, want %s", have, want)
	}
}

// Three members are wanted again before the last one stands alone: its cluster goes on.
func TestTheLastMemberKeepsItsFile(t *testing.T) {
	w := newWorld("a", "b", "c").reports("a", works, true, "a").reports("b", "", false).reports("c", lost, false, "a", "b", "c")
	w.observed.Former = []string{"nb-cluster", "sb-cluster"}
	if have, want := orders(t, Decide(w.observed)), "a joins, b joins, c joins without id-of-c"; have != want {
		t.Errorf("%s, want %s", have, want)
	}
}
