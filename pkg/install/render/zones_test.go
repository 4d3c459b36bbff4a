package render

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/ports"
)

// zonedFacts have the zone east, whose databases are on the node e-1.
func zonedFacts() Facts {
	f := facts()
	databases := Member{Node: "e-1", Addresses: []netip.Addr{netip.MustParseAddr("192.0.2.21")}}
	f.Place.Zones = []Zone{{Name: "east", NodeSelector: map[string]string{"zone": "east", "a": "b"},
		Place: Place{Wanted: 1, Members: []Member{databases}}}}
	return f
}

func TestZonesGolden(t *testing.T) {
	var have bytes.Buffer
	for _, w := range workloads(t, zonedFacts()) {
		if w.GetLabels()[LabelZone] == "" {
			continue
		}
		text, err := yaml.Marshal(w)
		if err != nil {
			t.Fatal(err)
		}
		have.WriteString("---\n")
		have.Write(text)
	}
	expectGolden(t, "testdata/zones.golden.yaml", have)
}

// TestZonesAreWorkloadsOfTheirOwn checks that a zone adds two workloads and, except for the databases, changes no other. A frozen zone
// adds none, and another zone replaces no pod.
func TestZonesAreWorkloadsOfTheirOwn(t *testing.T) {
	without := map[string]string{}
	for _, w := range workloads(t, facts()) {
		without[w.GetName()] = w.GetAnnotations()[AnnotationApplied]
	}
	revisions := map[string]string{}
	f := zonedFacts()
	for _, w := range workloads(t, f) {
		if w.GetLabels()[LabelZone] == "" && w.GetName() != Central && without[w.GetName()] != w.GetAnnotations()[AnnotationApplied] {
			t.Errorf("%s differs with a zone", w.GetName())
		}
		revisions[w.GetName()] = Template(w).Annotations[AnnotationRevision]
	}
	for name := range without {
		if revisions[name] == "" {
			t.Errorf("%s is missing with a zone", name)
		}
	}
	if len(revisions) != len(without)+2 || revisions["weft-central-east"] == "" || revisions["weft-operator-east"] == "" {
		t.Errorf("workloads %q", slices.Sorted(maps.Keys(revisions)))
	}
	f.Place.Zones = append(f.Place.Zones, Zone{Name: "west", Place: f.Place.Zones[0].Place, Frozen: true})
	names := 0
	for _, w := range workloads(t, f) {
		names++
		if revisions[w.GetName()] != Template(w).Annotations[AnnotationRevision] {
			t.Errorf("another zone replaces the pods of %s", w.GetName())
		}
	}
	if names != len(revisions) {
		t.Errorf("%d workloads with a frozen zone, want %d", names, len(revisions))
	}
}

// TestContainersOfDatabases checks which containers the pods of databases have, and which get the option of clustered databases.
func TestContainersOfDatabases(t *testing.T) {
	clustered, zoned := facts(), zonedFacts()
	clustered.Place.Wanted = 3
	clusteredZone := zoned.Place.Zones[0]
	clusteredZone.Place.Wanted = 3
	for name, c := range map[string]struct {
		facts Facts
		want  string
	}{
		"one":                  {facts(), "nb chassis"},
		"clustered":            {clustered, "member nb+ chassis"},
		"of a zone":            {zoned.in(zoned.Place.Zones[0]), "nb chassis"},
		"of a zone, clustered": {zoned.in(clusteredZone), "member nb+ chassis"},
	} {
		w := &appsv1.StatefulSet{}
		for _, container := range []string{memberContainer, "nb", chassisContainer} {
			w.Spec.Template.Spec.Containers = append(w.Spec.Template.Spec.Containers, corev1.Container{Name: container})
		}
		pin(c.facts, w)
		var have []string
		for _, container := range w.Spec.Template.Spec.Containers {
			have = append(have, container.Name+strings.Repeat("+", len(container.Command)))
		}
		if got := strings.Join(have, " "); got != c.want {
			t.Errorf("%s: containers %s, want %s", name, got, c.want)
		}
	}
}

// TestOperatorsShareANode checks that the operator of a zone listens at none of the operator's ports.
func TestOperatorsShareANode(t *testing.T) {
	used := map[int32]string{ports.OperatorMetrics: Operator} // the manifest declares no metrics port
	for _, w := range workloads(t, zonedFacts()) {
		if w.GetName() != Operator && w.GetName() != OperatorOf("east") {
			continue
		}
		for _, p := range Template(w).Spec.Containers[0].Ports {
			if other := used[p.ContainerPort]; other != "" {
				t.Errorf("%s and %s have port %d", w.GetName(), other, p.ContainerPort)
			}
			used[p.ContainerPort] = w.GetName()
		}
	}
	if len(used) != 3 {
		t.Errorf("ports %v", used)
	}
}

func TestKeysOfZones(t *testing.T) {
	have, place := map[string]*corev1.Secret{}, facts().Place
	keys(t, have, place, now)
	place.Zones = append(zonedFacts().Place.Zones, Zone{Name: "west", Frozen: true, Place: Place{Members: []Member{
		{Node: "w-1", Addresses: []netip.Addr{netip.MustParseAddr("192.0.2.31")}}}}})
	if written := keys(t, have, place, now); !slices.Equal(written, []string{"weft-nb-server", "weft-sb-server"}) {
		t.Errorf("written for zones: %q", written)
	}
	for _, address := range []string{"192.0.2.11", "192.0.2.21", "192.0.2.31"} {
		for _, name := range []string{"weft-nb-server", "weft-sb-server"} {
			pair, err := tls.X509KeyPair(have[name].Data[corev1.TLSCertKey], have[name].Data[corev1.TLSPrivateKeyKey])
			if err != nil {
				t.Fatal(err)
			}
			if err := pair.Leaf.VerifyHostname(address); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	if written := keys(t, have, place, now); len(written) > 0 {
		t.Errorf("written again: %q", written)
	}
}

// zoneFacts are nodes of no zone (n1, n2), of the zone east (e1, e2) and of the zone west (w1).
func zoneFacts() ZoneFacts {
	f := ZoneFacts{Before: map[string]Before{}}
	for i, name := range []string{"n1", "n2", "e1", "e2", "w1"} {
		n := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"zone": name[:1]}}}
		n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: fmt.Sprintf("192.0.2.%d", i+1)}}
		f.Nodes = append(f.Nodes, n)
	}
	for _, name := range []string{"east", "west"} {
		f.Wanted = append(f.Wanted, networkv1alpha1.Zone{Name: networkv1alpha1.ZoneName(name),
			NodeSelector: map[string]string{"zone": name[:1]}})
	}
	return f
}

// on returns databases on nodes.
func on(nodes ...string) Before { return Before{Nodes: nodes} }

// node returns a node of the facts.
func (f *ZoneFacts) node(name string) *corev1.Node {
	return &f.Nodes[slices.IndexFunc(f.Nodes, func(n corev1.Node) bool { return n.Name == name })]
}

// lose deletes Nodes.
func (f *ZoneFacts) lose(names ...string) {
	f.Nodes = slices.DeleteFunc(f.Nodes, func(n corev1.Node) bool { return slices.Contains(names, n.Name) })
}

// use makes a NodeNetwork name a zone.
func (f *ZoneFacts) use(zone string) {
	nn := networkv1alpha1.NodeNetwork{}
	nn.Spec.Zone = networkv1alpha1.ZoneName(zone)
	f.Networks = append(f.Networks, nn)
}

// pod adds a pod of databases or of an operator.
func (f *ZoneFacts) pod(component, zone, node string, ready corev1.ConditionStatus) {
	p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: component + "-" + node}, Spec: corev1.PodSpec{NodeName: node}}
	p.Labels = map[string]string{networkv1alpha1.ComponentLabel: component}
	if zone != "" {
		p.Labels[networkv1alpha1.ComponentLabel] += "-" + zone
	}
	if zone != "" && component == componentCentral {
		p.Labels[LabelZone] = zone
	}
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}}
	f.Pods = append(f.Pods, p)
}

// shownZones returns zones as "east=e1", a frozen zone as "east=e1!", and an unused one as "-east".
func shownZones(z Zones) string {
	var words []string
	for _, one := range z.Zones {
		word := one.Name + "=" + strings.Join(one.Place.Nodes(), ",")
		if one.Frozen {
			word += "!"
		}
		words = append(words, word)
	}
	for _, name := range z.Unused {
		words = append(words, "-"+name)
	}
	return strings.Join(words, " ")
}

func TestNextZones(t *testing.T) {
	const noPod = "the databases have no pod yet"
	for name, c := range map[string]struct {
		outside string // the nodes of the other databases
		change  func(*ZoneFacts)
		want    string
		message string // of east
	}{
		"a new cluster": {"n1", func(*ZoneFacts) {}, "east=e1 west=w1", noPod},
		"no zones":      {"n1", func(f *ZoneFacts) { f.Wanted = nil }, "", ""},
		"beside the other databases": {"e1", func(f *ZoneFacts) { f.pod("central", "", "e1", corev1.ConditionTrue) },
			"east=e2 west=w1", noPod},
		"no room beside the other databases": {"e1 e2", func(*ZoneFacts) {}, "east=! west=w1",
			"every node of the zone has other databases: e1, e2"},
		"the other databases are leaving": {"n1", func(f *ZoneFacts) { f.pod("central", "", "e1", corev1.ConditionTrue) },
			"east=e2 west=w1", noPod},
		"a control-plane node": {"n1", func(f *ZoneFacts) { f.node("e2").Labels[controlPlane] = "" }, "east=e2 west=w1", noPod},
		"stays where it is":    {"n1", func(f *ZoneFacts) { f.Before["east"] = on("e2") }, "east=e2 west=w1", noPod},
		"its node is cordoned": {"n1", func(f *ZoneFacts) {
			f.Before["east"] = on("e1")
			f.node("e1").Spec.Unschedulable = true
		}, "east=e1 west=w1", noPod},
		"its node left the zone": {"n1", func(f *ZoneFacts) {
			f.Before["east"] = on("e1")
			f.node("e1").Labels["zone"] = "w"
		}, "east=e1 west=w1", noPod},
		"its node is gone": {"n1", func(f *ZoneFacts) { f.Before["east"] = on("e1"); f.lose("e1") }, "east=e2 west=w1", noPod},
		"its node is being deleted": {"n1", func(f *ZoneFacts) {
			f.Before["east"] = on("e1")
			f.node("e1").DeletionTimestamp = &metav1.Time{Time: now}
		}, "east=e2 west=w1", noPod},
		"all of its nodes are gone": {"n1", func(f *ZoneFacts) { f.Before["east"] = on("e1"); f.use("east"); f.lose("e1", "e2") },
			"east=! west=w1", "no node matches nodeSelector"},
		"all of its nodes are gone, and NodeNetworks": {"n1", func(f *ZoneFacts) { f.Before["east"] = on("e1"); f.lose("e1", "e2") },
			"east=! west=w1 -east", "no node matches nodeSelector"},
		"no node left in the zone": {"n1", func(f *ZoneFacts) {
			f.Before["east"] = on("e1")
			f.use("east")
			f.node("e1").Labels["zone"], f.node("e2").Labels["zone"] = "n", "n"
		}, "east=e1! west=w1", "no node matches nodeSelector"},
		"nodes of an earlier zone only": {"n1", func(f *ZoneFacts) {
			slices.Reverse(f.Wanted)
			f.Wanted[1].NodeSelector = f.Wanted[0].NodeSelector
		}, "west=w1 east=!", "every node that matches nodeSelector is in an earlier zone"},
		"no address": {"n1", func(f *ZoneFacts) {
			f.node("e1").Status.Addresses, f.node("e2").Status.Addresses = nil, nil
		}, "east=! west=w1", "no node that matches nodeSelector has an internal address"},
		"another zone's databases are on its node": {"n1", func(f *ZoneFacts) { f.Before["west"] = on("e1") },
			"east=e2 west=e1", noPod},
		"removed from the spec, in use": {"n1", func(f *ZoneFacts) {
			f.Wanted, f.Before["east"] = f.Wanted[1:], on("e1")
			f.use("east")
		}, "west=w1 east=e1!", ""},
		"removed from the spec":    {"n1", func(f *ZoneFacts) { f.Wanted, f.Before["east"] = f.Wanted[1:], on("e1") }, "west=w1 -east", ""},
		"only an operator is left": {"n1", func(f *ZoneFacts) { f.Wanted, f.Before["east"] = f.Wanted[1:], on() }, "west=w1 -east", ""},
		"the databases are not ready": {"n1", func(f *ZoneFacts) { f.pod("central", "east", "e1", corev1.ConditionFalse) },
			"east=e1 west=w1", "pod central-e1 is not ready"},
		"the operator is missing": {"n1", func(f *ZoneFacts) { f.pod("central", "east", "e1", corev1.ConditionTrue) },
			"east=e1 west=w1", "the operator has no pod yet"},
		"three members, two nodes": {"n1", func(f *ZoneFacts) { f.Wanted[0].Databases.Members = 3 }, "east=e1,e2 west=w1", noPod},
		"three members": {"n1", func(f *ZoneFacts) {
			f.Wanted[0].Databases.Members, f.Before["east"] = 3, on("e2")
			f.node("n2").Labels["zone"] = "e"
		}, "east=e2,e1,n2 west=w1", noPod},
		"a member's node left the zone": {"n1", func(f *ZoneFacts) {
			f.Wanted[0].Databases.Members, f.Before["east"] = 3, on("e2", "n2", "e1")
		}, "east=e2,n2,e1 west=w1", noPod},
		"a member's node is gone": {"n1", func(f *ZoneFacts) {
			f.Wanted[0].Databases.Members, f.Before["east"] = 3, on("e2", "n2", "e1")
			f.lose("e2")
		}, "east=n2,e1 west=w1", noPod},
		"three become one": {"n1", func(f *ZoneFacts) {
			f.Before["east"] = Before{Nodes: []string{"e2", "n2", "e1"}, Clustered: true}
		}, "east=e2,n2,e1 west=w1", noPod},
		"three were one": {"n1", func(f *ZoneFacts) { f.Before["east"] = on("e2", "n2", "e1") }, "east=e2 west=w1", noPod},
		"removed with three members": {"n1", func(f *ZoneFacts) {
			f.Wanted, f.Before["east"] = f.Wanted[1:], Before{Nodes: []string{"e2", "n2", "e1"}, Clustered: true}
			f.use("east")
			f.lose("n2")
		}, "west=w1 east=e2,e1!", ""},
		"a member's pod is ready": {"n1", func(f *ZoneFacts) {
			f.Wanted[0].Databases.Members = 3
			f.pod("central", "east", "e1", corev1.ConditionFalse)
			f.pod("central", "east", "e2", corev1.ConditionTrue)
			f.pod("operator", "east", "e2", corev1.ConditionTrue)
		}, "east=e1,e2 west=w1", ""},
		"ready": {"n1", func(f *ZoneFacts) {
			f.pod("central", "east", "e1", corev1.ConditionTrue)
			f.pod("operator", "east", "e2", corev1.ConditionTrue)
		}, "east=e1 west=w1", ""},
	} {
		t.Run(name, func(t *testing.T) {
			f := zoneFacts()
			c.change(&f)
			var outside Place
			for node := range strings.FieldsSeq(c.outside) {
				outside.Members = append(outside.Members, Member{Node: node})
			}
			next := NextZones(f, outside)
			if have := shownZones(next); have != c.want {
				t.Errorf("zones %s, want %s", have, c.want)
			}
			if len(next.Status) != len(f.Wanted) {
				t.Errorf("the status of %d zones, want %d", len(next.Status), len(f.Wanted))
			}
			for i, s := range next.Status {
				if s.Name != f.Wanted[i].Name {
					t.Errorf("the status of %s at the place of %s", s.Name, f.Wanted[i].Name)
				}
				if s.Name != "east" {
					continue
				}
				if s.Message != c.message || s.Ready != (c.message == "") {
					t.Errorf("status %+v, want message %q", s, c.message)
				}
				if placed := !next.Zones[i].Frozen; placed != (s.Node != "") || placed && len(s.Addresses) != len(next.Zones[i].Place.Members) {
					t.Errorf("status %+v of zone %+v", s, next.Zones[i])
				}
			}
		})
	}
}

// The state of members stays in the status while the databases are clustered.
func TestStateOfAZonesMembers(t *testing.T) {
	f := zoneFacts()
	state := &networkv1alpha1.DatabasesStatus{Wanted: 3}
	f.States = []networkv1alpha1.ZoneStatus{{Name: "west"}, {Name: "east", Databases: state}}
	if s := NextZones(f, Place{}).Status[0]; s.Databases != nil {
		t.Errorf("standalone databases have members: %+v", s)
	}
	f.Wanted[0].Databases.Members = 3
	if s := NextZones(f, Place{}).Status[0]; s.Databases != state {
		t.Errorf("clustered databases have no members: %+v", s)
	}
}

func TestPlaceOutside(t *testing.T) {
	for name, c := range map[string]struct {
		before string
		wanted int
		change func(*ZoneFacts)
		want   string
	}{
		"outside zones":             {"", 1, func(f *ZoneFacts) { f.node("e1").Labels[controlPlane] = "" }, "n1"},
		"in a zone if it must":      {"", 3, func(*ZoneFacts) {}, "n1 n2 e1"},
		"never beside others":       {"", 3, func(f *ZoneFacts) { f.Before["east"] = on("e1") }, "n1 n2 e2"},
		"never beside others' pods": {"", 3, func(f *ZoneFacts) { f.pod("central", "east", "e1", corev1.ConditionTrue) }, "n1 n2 e2"},
		"beside others' former pods": {"", 3, func(f *ZoneFacts) {
			f.pod("central", "east", "e1", corev1.ConditionFalse)
			f.Pods[0].Status.Phase = corev1.PodFailed
		}, "n1 n2 e1"},
		"stays in a new zone":   {"e1", 1, func(*ZoneFacts) {}, "e1"},
		"its node is gone":      {"n1", 1, func(f *ZoneFacts) { f.lose("n1") }, "n2"},
		"every node has others": {"n1", 1, func(f *ZoneFacts) { f.Before["east"] = on("e1"); f.lose("n1", "n2", "e2", "w1") }, ""},
		"without zones":         {"", 1, func(f *ZoneFacts) { f.Wanted = nil; f.node("w1").Labels[controlPlane] = "" }, "w1"},
	} {
		f := zoneFacts()
		c.change(&f)
		if have := strings.Join(PlaceOutside(f, on(strings.Fields(c.before)...), c.wanted).Nodes(), " "); have != c.want {
			t.Errorf("%s: %q, want %q", name, have, c.want)
		}
	}
}

// TestTheStateOfAZoneKeepsItsRelays checks that the places of databases leave the relays in the status, until the zone's workloads go.
func TestTheStateOfAZoneKeepsItsRelays(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*ZoneFacts)
		want   string
	}{
		"with databases":           {func(*ZoneFacts) {}, "w1=Ready"},
		"without a node for them":  {func(f *ZoneFacts) { f.lose("w1"); f.use("west") }, "w1=Ready"},
		"without any node in it":   {func(f *ZoneFacts) { f.lose("w1") }, ""},
		"without relays before it": {func(f *ZoneFacts) { f.States = nil }, ""},
	} {
		f := zoneFacts()
		f.States = []networkv1alpha1.ZoneStatus{{Name: "west", Relays: before("w1=Ready")}}
		c.change(&f)
		if have := shown(NextZones(f, Place{}).Status[1].Relays); have != c.want {
			t.Errorf("%s: %q, want %q", name, have, c.want)
		}
	}
}
