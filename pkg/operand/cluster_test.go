package operand

import (
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/weft-network/weft/pkg/member"
)

func TestPlaceOfThree(t *testing.T) {
	control := func(n *corev1.Node) { n.Labels[controlPlane] = "" }
	for name, c := range map[string]struct {
		before string
		nodes  []corev1.Node
		want   string
	}{
		"too few":                         {"", []corev1.Node{node("b"), node("a")}, "a b"},
		"the control plane first":         {"", []corev1.Node{node("a"), node("b"), node("c", control), node("d", control)}, "c d a"},
		"one stays, in its slot":          {"c", []corev1.Node{node("a"), node("b"), node("c"), node("d")}, "c a b"},
		"they stay":                       {"d,b,c", []corev1.Node{node("a", control), node("b"), node("c"), node("d")}, "d b c"},
		"another takes the slot of one":   {"a,b,c", []corev1.Node{node("a"), node("c"), node("d")}, "a d c"},
		"two are left and nobody else is": {"a,b,c", []corev1.Node{node("a"), node("c")}, "a c"},
	} {
		var before []string
		if c.before != "" {
			before = strings.Split(c.before, ",")
		}
		if have := strings.Join(PlaceOf(before, c.nodes, 3).Nodes(), " "); have != c.want {
			t.Errorf("%s: %q, want %q", name, have, c.want)
		}
	}
}

// world are members a, b and c, and what their servers of the northbound database say; that of the southbound one says the same.
type world struct {
	observed Observed
}

func newWorld(nodes ...string) *world {
	w := &world{Observed{Place: Place{Wanted: 3}, States: map[string]member.State{}, Clusters: map[string]string{}}}
	for _, n := range nodes {
		w.observed.Place.Members = append(w.observed.Place.Members, Member{n, []netip.Addr{netip.MustParseAddr("192.0.2.1")}})
	}
	return w
}

func (w *world) noted() *world {
	w.observed.Clusters = map[string]string{"nb": "nb-cluster", "sb": "sb-cluster"}
	return w
}

// says has a node answer. servers are "node" or "node:id" of those that it knows; no servers: it has no file.
func (w *world) says(node, status string, leads bool, servers ...string) *world {
	state := member.State{Databases: map[string]member.DatabaseState{}}
	for database := range member.Databases {
		s := member.DatabaseState{Status: status, Leads: leads, Connected: status == "cluster member"}
		if len(servers) > 0 {
			s.File = member.FileState{Kind: member.Clustered, Cluster: database + "-cluster", Server: "id-of-" + node}
		}
		for _, server := range servers {
			at, id, ok := strings.Cut(server, ":")
			if !ok {
				id = "id-of-" + at
			}
			s.Servers = append(s.Servers, member.Listed{ID: id, Address: member.Raft(member.Run, at, database)})
		}
		state.Databases[database] = s
	}
	w.observed.States[node] = state
	return w
}

const works, lost = "cluster member", "disconnected from the cluster (election timeout)"

// orders are what is ordered of the northbound database, and makes sure that it is the same of the southbound one.
func orders(t *testing.T, d Decision) string {
	t.Helper()
	var words [2][]string
	for i, database := range []string{"nb", "sb"} {
		for _, node := range slices.Sorted(maps.Keys(d.Orders)) {
			o := d.Orders[node].Databases[database]
			word := node + " waits"
			switch {
			case o.Create && o.Cluster != "":
				word = node + " creates and joins"
			case o.Create:
				word = node + " creates"
			case o.Cluster != "":
				word = node + " joins"
			}
			if o.Discard != "" {
				word += " without " + o.Discard
			}
			for _, k := range o.Kick {
				for _, n := range []string{"a", "b", "c", "d"} {
					if k == member.Raft(member.Run, n, database) {
						k = n
					}
				}
				word += " kicks " + k
			}
			words[i] = append(words[i], word)
		}
	}
	nb, sb := strings.Join(words[0], ", "), strings.Join(words[1], ", ")
	if nb != sb {
		t.Errorf("nb: %s\nsb: %s", nb, sb)
	}
	return nb
}

func TestDecide(t *testing.T) {
	abc := []string{"a", "b", "c"}
	for name, c := range map[string]struct {
		world *world
		want  string
	}{
		"nobody answers":                {newWorld("a", "b", "c"), "a waits, b waits, c waits"},
		"one does not answer":           {newWorld("a", "b", "c").says("a", "", false).says("b", "", false), "a waits, b waits, c waits"},
		"nobody has a file":             {newWorld("a", "b", "c").says("a", "", false).says("b", "", false).says("c", "", false), "a creates, b waits, c waits"},
		"two nodes":                     {newWorld("a", "b").says("a", "", false).says("b", "", false), "a creates, b waits"},
		"the first has one":             {newWorld("a", "b", "c").says("a", works, true, "a").says("b", "", false).says("c", "", false), "a joins, b joins, c joins"},
		"the note was lost":             {newWorld("a", "b", "c").says("b", works, false, "a", "b", "c"), "a joins, b joins, c joins"},
		"all disks were lost":           {newWorld("a", "b", "c").noted().says("a", "", false).says("b", "", false).says("c", "", false), "a joins, b joins, c joins"},
		"all work":                      {newWorld("a", "b", "c").noted().says("a", works, true, abc...).says("b", works, false, abc...).says("c", works, false, abc...), "a joins, b joins, c joins"},
		"the leader is silent":          {newWorld("a", "b", "c").noted().says("b", works, false, abc...).says("c", works, false, abc...), "a joins, b joins, c joins"},
		"another node for c":            {newWorld("a", "b", "d").noted().says("a", works, true, abc...).says("b", works, false, abc...).says("d", "", false), "a joins kicks c, b joins, d joins"},
		"a quorum would be lost":        {newWorld("a", "b", "d").noted().says("a", works, true, abc...).says("d", "", false), "a joins, b joins, d joins"},
		"two leaders, one alone":        {newWorld("a", "b", "d").noted().says("a", works, true, abc...).says("b", lost, true, abc...), "a joins, b joins, d joins"},
		"c joins again, disk lost":      {newWorld("a", "b", "c").noted().says("a", works, true, "a", "b", "c", "c:ghost").says("b", works, false, abc...).says("c", works, false, abc...), "a joins kicks ghost, b joins, c joins"},
		"c is about to, disk lost":      {newWorld("a", "b", "c").noted().says("a", works, true, "a", "b", "c:ghost").says("b", works, false, abc...).says("c", "joining cluster", false, "c"), "a joins, b joins, c joins"},
		"c was kicked and comes back":   {newWorld("a", "b", "c").noted().says("a", works, true, "a", "b").says("b", works, false, "a", "b").says("c", lost, false, abc...), "a joins, b joins, c joins without id-of-c"},
		"c is only cut off":             {newWorld("a", "b", "c").noted().says("a", works, true, abc...).says("b", works, false, abc...).says("c", lost, false, abc...), "a joins, b joins, c joins"},
		"c is cut off and nobody leads": {newWorld("a", "b", "c").noted().says("a", lost, false, "a", "b").says("b", lost, false, "a", "b").says("c", lost, false, abc...), "a joins, b joins, c joins"},
	} {
		if have := orders(t, Decide(c.world.observed)); have != c.want {
			t.Errorf("%s:\n%s, want\n%s", name, have, c.want)
		}
	}
}

// TestAClusterIsNotedBeforeAnybodyJoins: what the first says is noted, and an order with it comes with the note.
func TestAClusterIsNotedBeforeAnybodyJoins(t *testing.T) {
	w := newWorld("a", "b", "c").says("a", works, true, "a").says("b", "", false).says("c", "", false)
	d := Decide(w.observed)
	if d.Clusters["nb"] != "nb-cluster" || d.Clusters["sb"] != "sb-cluster" || len(w.observed.Clusters) != 0 {
		t.Errorf("noted %v, before %v", d.Clusters, w.observed.Clusters)
	}
	if cluster := d.Orders["b"].Databases["sb"].Cluster; cluster != "sb-cluster" {
		t.Errorf("b joins %q", cluster)
	}
}

// TestTwoClustersAreAConflict: nobody is told anything while it is not known which of them is the one.
func TestTwoClustersAreAConflict(t *testing.T) {
	w := newWorld("a", "b", "c").says("a", works, true, "a").says("b", works, true, "b")
	other := w.observed.States["b"].Databases["sb"]
	other.File.Cluster = "another"
	w.observed.States["b"].Databases["sb"] = other
	if d := Decide(w.observed); len(d.Orders) != 0 || !strings.Contains(d.Conflict, "OVN_Southbound: there are clusters another and sb-cluster") {
		t.Errorf("%+v", d)
	}
	// With a note it is known, and the file of the other goes, where the one works without it.
	w = newWorld("a", "b", "c").noted().says("a", works, true, "a").says("b", lost, false, "b")
	other = w.observed.States["b"].Databases["sb"]
	other.File.Cluster = "another"
	w.observed.States["b"].Databases["sb"] = other
	if d := Decide(w.observed); d.Orders["b"].Databases["sb"].Discard != "id-of-b" || d.Conflict != "" {
		t.Errorf("%+v", d)
	}
}

func TestMembersOf(t *testing.T) {
	w := newWorld("a", "b", "c").noted().says("a", works, true, "a").says("b", lost, false, "a", "b")
	status := MembersOf(w.observed, map[string]string{"c": "dial: no route to host"}, "")
	if status.Wanted != 3 || len(status.Members) != 3 || status.Members[0].Northbound != "Leader" || status.Members[1].Southbound != "Disconnected" ||
		status.Members[2].Northbound != "Unknown" || status.Members[2].Message != "dial: no route to host" {
		t.Errorf("%+v", status)
	}
}

// TestWorkloadsOfThree: a pod on each of three nodes, clients of all three, and no other pod where another node takes one's place.
func TestWorkloadsOfThree(t *testing.T) {
	f := facts()
	f.Place = newWorld("a", "b", "c").observed.Place
	all := workloads(t, f)
	central := Template(all[0])
	if terms := central.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms; len(terms) != 3 || central.Spec.Affinity.PodAntiAffinity == nil {
		t.Errorf("affinity %+v", central.Spec.Affinity)
	}
	var names []string
	for _, c := range central.Spec.Containers {
		names = append(names, strings.Join(c.Command[1:], " "))
	}
	if have := strings.Join(names, ", "); have != "member, nb --cluster, sb --cluster, northd --cluster" {
		t.Errorf("containers %s", have)
	}
	for _, w := range all {
		for _, c := range Template(w).Spec.Containers {
			for _, e := range c.Env {
				if (e.Name == "WEFT_NB" || e.Name == "WEFT_SB" || e.Name == "WEFT_OVN_REMOTE") && strings.Count(e.Value, "ssl:192.0.2.1:") != 3 {
					t.Errorf("%s: %s is %s", w.GetName(), e.Name, e.Value)
				}
			}
		}
	}
	f.Place = newWorld("a", "d", "c").observed.Place
	if other := Template(workloads(t, f)[0]); other.Annotations[AnnotationRevision] != central.Annotations[AnnotationRevision] {
		t.Error("the pods of a and c are other ones since d has taken the place of b")
	}
}
