package render

import (
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/weft-network/weft/pkg/install/member"
)

func TestPlaceOfThree(t *testing.T) {
	control := func(n *corev1.Node) { n.Labels[controlPlane] = "" }
	for name, c := range map[string]struct {
		before string
		nodes  []corev1.Node
		want   string
	}{
		"fewer nodes than members":        {"", []corev1.Node{node("b"), node("a")}, "a b"},
		"the control plane first":         {"", []corev1.Node{node("a"), node("b"), node("c", control), node("d", control)}, "c d a"},
		"a member keeps its slot":         {"c", []corev1.Node{node("a"), node("b"), node("c"), node("d")}, "c a b"},
		"all members stay":                {"d,b,c", []corev1.Node{node("a", control), node("b"), node("c"), node("d")}, "d b c"},
		"a new node takes the free slot":  {"a,b,c", []corev1.Node{node("a"), node("c"), node("d")}, "a d c"},
		"two nodes left, no further node": {"a,b,c", []corev1.Node{node("a"), node("c")}, "a c"},
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

// world holds an Observed state of members such as a, b and c. The southbound database always has the same state as
// the northbound one.
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

// recorded records the IDs of both clusters.
func (w *world) recorded() *world {
	w.observed.Clusters = map[string]string{"nb": "nb-cluster", "sb": "sb-cluster"}
	return w
}

// reports makes a node reply. servers are "node" or "node:id", the servers in its view of the cluster; without any,
// the node has no file.
func (w *world) reports(node, status string, leads bool, servers ...string) *world {
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

// orders renders the orders for the northbound database. It fails the test unless the southbound database has the
// same orders.
func orders(t *testing.T, d Decision) string {
	t.Helper()
	var words [2][]string
	for i, database := range []string{"nb", "sb"} {
		for _, node := range slices.Sorted(maps.Keys(d.Orders)) {
			o := d.Orders[node].Databases[database]
			word := node + " waits"
			switch {
			case o.Alone:
				word = node + " stands alone"
			case o.Leave:
				word = node + " leaves"
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
		"no reply": {newWorld("a", "b", "c"), "a waits, b waits, c waits"},
		"one does not reply": {
			newWorld("a", "b", "c").reports("a", "", false).reports("b", "", false),
			"a waits, b waits, c waits",
		},
		"no member has a file": {
			newWorld("a", "b", "c").reports("a", "", false).reports("b", "", false).reports("c", "", false),
			"a creates, b waits, c waits",
		},
		"two nodes": {newWorld("a", "b").reports("a", "", false).reports("b", "", false), "a creates, b waits"},
		"the first has a cluster": {
			newWorld("a", "b", "c").reports("a", works, true, "a").reports("b", "", false).reports("c", "", false),
			"a joins, b joins, c joins",
		},
		"the record was lost": {
			newWorld("a", "b", "c").reports("b", works, false, "a", "b", "c"),
			"a joins, b joins, c joins",
		},
		"all disks were lost": {
			newWorld("a", "b", "c").recorded().
				reports("a", "", false).reports("b", "", false).reports("c", "", false),
			"a joins, b joins, c joins",
		},
		"all work": {
			newWorld("a", "b", "c").recorded().
				reports("a", works, true, abc...).reports("b", works, false, abc...).
				reports("c", works, false, abc...),
			"a joins, b joins, c joins",
		},
		"the leader does not reply": {
			newWorld("a", "b", "c").recorded().reports("b", works, false, abc...).reports("c", works, false, abc...),
			"a joins, b joins, c joins",
		},
		"d replaces c": {
			newWorld("a", "b", "d").recorded().
				reports("a", works, true, abc...).reports("b", works, false, abc...).reports("d", "", false),
			"a joins kicks c, b joins, d joins",
		},
		"a quorum would be lost": {
			newWorld("a", "b", "d").recorded().reports("a", works, true, abc...).reports("d", "", false),
			"a joins, b joins, d joins",
		},
		"two leaders, one of them alone": {
			newWorld("a", "b", "d").recorded().reports("a", works, true, abc...).reports("b", lost, true, abc...),
			"a joins, b joins, d joins",
		},
		"c lost its disk and joined again": {
			newWorld("a", "b", "c").recorded().
				reports("a", works, true, "a", "b", "c", "c:ghost").reports("b", works, false, abc...).
				reports("c", works, false, abc...),
			"a joins kicks ghost, b joins, c joins",
		},
		"c lost its disk and is joining": {
			newWorld("a", "b", "c").recorded().
				reports("a", works, true, "a", "b", "c:ghost").reports("b", works, false, abc...).
				reports("c", "joining cluster", false, "c"),
			"a joins, b joins, c joins",
		},
		"c was kicked and comes back": {
			newWorld("a", "b", "c").recorded().
				reports("a", works, true, "a", "b").reports("b", works, false, "a", "b").
				reports("c", lost, false, abc...),
			"a joins, b joins, c joins without id-of-c",
		},
		"c has left and comes back": {
			newWorld("a", "b", "c").recorded().
				reports("a", works, true, "a", "b").reports("b", works, false, "a", "b").
				reports("c", "", false, abc...),
			"a joins, b joins, c joins without id-of-c",
		},
		"c is only disconnected": {
			newWorld("a", "b", "c").recorded().
				reports("a", works, true, abc...).reports("b", works, false, abc...).
				reports("c", lost, false, abc...),
			"a joins, b joins, c joins",
		},
		"c is disconnected and there is no leader": {
			newWorld("a", "b", "c").recorded().
				reports("a", lost, false, "a", "b").reports("b", lost, false, "a", "b").
				reports("c", lost, false, abc...),
			"a joins, b joins, c joins",
		},
	} {
		if have := orders(t, Decide(c.world.observed)); have != c.want {
			t.Errorf("%s:\n%s, want\n%s", name, have, c.want)
		}
	}
}

// TestAClusterIsRecordedBeforeAMemberJoins decides to record the first member's cluster together with the orders to
// join it.
func TestAClusterIsRecordedBeforeAMemberJoins(t *testing.T) {
	w := newWorld("a", "b", "c").reports("a", works, true, "a").reports("b", "", false).reports("c", "", false)
	d := Decide(w.observed)
	if d.Clusters["nb"] != "nb-cluster" || d.Clusters["sb"] != "sb-cluster" || len(w.observed.Clusters) != 0 {
		t.Errorf("recorded %v, previously %v", d.Clusters, w.observed.Clusters)
	}
	if cluster := d.Orders["b"].Databases["sb"].Cluster; cluster != "sb-cluster" {
		t.Errorf("b joins %q", cluster)
	}
}

// TestTwoClustersAreAConflict expects no orders while the right cluster is unknown.
func TestTwoClustersAreAConflict(t *testing.T) {
	w := newWorld("a", "b", "c").reports("a", works, true, "a").reports("b", works, true, "b")
	other := w.observed.States["b"].Databases["sb"]
	other.File.Cluster = "another"
	w.observed.States["b"].Databases["sb"] = other
	d := Decide(w.observed)
	const conflict = "OVN_Southbound: members have files of different clusters: another and sb-cluster"
	if len(d.Orders) != 0 || !strings.Contains(d.Conflict, conflict) {
		t.Errorf("%+v", d)
	}
	// If the ID is recorded, the file of the other cluster is discarded as long as the recorded cluster works without
	// it.
	w = newWorld("a", "b", "c").recorded().reports("a", works, true, "a").reports("b", lost, false, "b")
	other = w.observed.States["b"].Databases["sb"]
	other.File.Cluster = "another"
	w.observed.States["b"].Databases["sb"] = other
	if d = Decide(w.observed); d.Orders["b"].Databases["sb"].Discard != "id-of-b" || d.Conflict != "" {
		t.Errorf("%+v", d)
	}
}

func TestMembersOf(t *testing.T) {
	w := newWorld("a", "b", "c").recorded().reports("a", works, true, "a").reports("b", lost, false, "a", "b")
	status := MembersOf(w.observed, map[string]string{"c": "dial: no route to host"}, "")
	if m := status.Members; status.Wanted != 3 || len(m) != 3 || m[0].Northbound != "Leader" || m[1].Southbound != "Disconnected" ||
		m[2].Northbound != "Unknown" || m[2].Message != "dial: no route to host" {
		t.Errorf("%+v", status)
	}
}

// TestWorkloadsOfThree expects a pod on each of three nodes and clients of all three. The pods stay the same if
// another node takes a slot.
func TestWorkloadsOfThree(t *testing.T) {
	f := facts()
	f.Place = newWorld("a", "b", "c").observed.Place
	all := workloads(t, f)
	central := Template(all[0])
	terms := central.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
	if len(terms) != 3 || central.Spec.Affinity.PodAntiAffinity == nil {
		t.Errorf("affinity %+v", central.Spec.Affinity)
	}
	var names []string
	for _, c := range central.Spec.Containers {
		names = append(names, strings.Join(c.Command[1:], " "))
	}
	if have := strings.Join(names, ", "); have != "member, nb --cluster, sb --cluster, northd --cluster, chassis" {
		t.Errorf("containers %s", have)
	}
	for _, w := range all {
		for _, c := range Template(w).Spec.Containers {
			for _, e := range c.Env {
				remote := e.Name == "WEFT_NB" || e.Name == "WEFT_SB" || e.Name == "WEFT_OVN_REMOTE"
				if remote && strings.Count(e.Value, "ssl:192.0.2.1:") != 3 {
					t.Errorf("%s: %s is %s", w.GetName(), e.Name, e.Value)
				}
			}
		}
	}
	f.Place = newWorld("a", "d", "c").observed.Place
	if other := Template(workloads(t, f)[0]); other.Annotations[AnnotationRevision] != central.Annotations[AnnotationRevision] {
		t.Error("replacing b by d changed the pods of a and c")
	}
}
