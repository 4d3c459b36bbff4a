package render

import (
	"crypto/tls"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

// relayFacts are four nodes, of which n1 has the databases. n3 and n4 are labelled.
func relayFacts(count int32) RelayFacts {
	f := RelayFacts{Wanted: networkv1alpha1.Relays{Count: count}, Databases: []string{"n1"}}
	for i := range 4 {
		n := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("n%d", i+1), Labels: map[string]string{}}}
		if i > 1 {
			n.Labels["relays"] = "yes"
		}
		n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: fmt.Sprintf("192.0.2.%d", i+1)}}
		f.Nodes = append(f.Nodes, n)
	}
	return f
}

func (f *RelayFacts) pod(node string, ready bool) { f.podOf(componentRelay, node, ready) }

func (f *RelayFacts) podOf(component, node string, ready bool) {
	p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "relay-" + node, Labels: map[string]string{
		networkv1alpha1.ComponentLabel: component}}, Spec: corev1.PodSpec{NodeName: node}}
	status := corev1.ConditionFalse
	if ready {
		status = corev1.ConditionTrue
	}
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: status}}
	f.Pods = append(f.Pods, p)
}

// shown returns the relays as "n2=Ready".
func shown(relays []networkv1alpha1.RelayStatus) string {
	var words []string
	for _, r := range relays {
		words = append(words, r.Node+"="+string(r.State))
	}
	return strings.Join(words, " ")
}

func before(words ...string) (all []networkv1alpha1.RelayStatus) {
	for _, word := range words {
		node, state, _ := strings.Cut(word, "=")
		all = append(all, networkv1alpha1.RelayStatus{Node: node, State: networkv1alpha1.RelayState(state),
			Address: networkv1alpha1.IP("192.0.2." + node[1:])})
	}
	return all
}

func TestNextRelays(t *testing.T) {
	for name, c := range map[string]struct {
		count  int32
		change func(*RelayFacts)
		want   string
	}{
		"none":                 {0, func(*RelayFacts) {}, ""},
		"beside the databases": {2, func(*RelayFacts) {}, "n2=Starting n3=Starting"},
		"with them if it must": {4, func(*RelayFacts) {}, "n2=Starting n3=Starting n4=Starting n1=Starting"},
		"more than nodes":      {9, func(f *RelayFacts) { f.Nodes = f.Nodes[:1] }, "n1=Starting"},
		"cordoned nodes last":  {1, func(f *RelayFacts) { f.Nodes[1].Spec.Unschedulable = true }, "n3=Starting"},
		"only selected nodes": {3, func(f *RelayFacts) { f.Wanted.NodeSelector = map[string]string{"relays": "yes"} },
			"n3=Starting n4=Starting"},
		"ready":                  {1, func(f *RelayFacts) { f.pod("n2", true) }, "n2=Ready"},
		"not yet ready":          {1, func(f *RelayFacts) { f.pod("n2", false) }, "n2=Starting"},
		"ready no more":          {1, func(f *RelayFacts) { f.pod("n2", false); f.Before = before("n2=Ready") }, "n2=Unavailable"},
		"without a pod any more": {1, func(f *RelayFacts) { f.Before = before("n2=Ready") }, "n2=Unavailable"},
		"ready again":            {1, func(f *RelayFacts) { f.pod("n2", true); f.Before = before("n2=Unavailable") }, "n2=Ready"},
		"stays where it is":      {1, func(f *RelayFacts) { f.Before = before("n4=Ready") }, "n4=Unavailable"},
		"leaves a cordoned node never": {1, func(f *RelayFacts) {
			f.Nodes[3].Spec.Unschedulable = true
			f.Before = before("n4=Ready")
		}, "n4=Unavailable"},
		"fewer, in use": {1, func(f *RelayFacts) { f.Before = before("n2=Ready", "n3=Ready"); f.use("192.0.2.3"); f.pod("n2", true) },
			"n2=Ready n3=Leaving"},
		"fewer, in use no more": {1, func(f *RelayFacts) { f.Before = before("n2=Ready", "n3=Leaving"); f.pod("n2", true) }, "n2=Ready"},
		"wanted again while leaving": {2, func(f *RelayFacts) {
			f.Before = before("n2=Ready", "n4=Leaving")
			f.use("192.0.2.4")
			f.pod("n2", true)
			f.pod("n4", true)
		}, "n2=Ready n4=Ready"},
		"none any more, in use": {0, func(f *RelayFacts) { f.Before = before("n2=Ready"); f.use("192.0.2.2") }, "n2=Leaving"},
		"the node is gone": {1, func(f *RelayFacts) {
			f.Nodes = slices.Delete(f.Nodes, 1, 2)
			f.Before = before("n2=Ready")
			f.use("192.0.2.2")
		}, "n3=Starting"},
	} {
		f := relayFacts(c.count)
		c.change(&f)
		if have := shown(NextRelays(f)); have != c.want {
			t.Errorf("%s: %s, want %s", name, have, c.want)
		}
	}
}

func (f *RelayFacts) use(address networkv1alpha1.IP) {
	nn := networkv1alpha1.NodeNetwork{}
	nn.Spec.Relays = []networkv1alpha1.IP{address}
	f.Networks = append(f.Networks, nn)
}

// TestRelaysAreWorkloadsOfTheirOwn checks that relays change no other workload, and that the first relay replaces no pod.
func TestRelaysAreWorkloadsOfTheirOwn(t *testing.T) {
	f := facts()
	without := map[string]string{}
	for _, w := range workloads(t, f) {
		without[w.GetName()] = w.GetAnnotations()[AnnotationApplied]
	}
	f.Place.Relays = []Member{{Node: "n2", Addresses: []netip.Addr{netip.MustParseAddr("192.0.2.2")}}}
	revisions := map[string]string{}
	for _, w := range workloads(t, f) {
		if w.GetName() == Relays || w.GetName() == Sources {
			revisions[w.GetName()] = Template(w).Annotations[AnnotationRevision]
			continue
		}
		if without[w.GetName()] != w.GetAnnotations()[AnnotationApplied] {
			t.Errorf("%s differs with relays", w.GetName())
		}
	}
	if len(revisions) != 2 {
		t.Fatalf("workloads of relays: %v", revisions)
	}
	f.Place.Relays = append(f.Place.Relays, Member{Node: "n3", Addresses: []netip.Addr{netip.MustParseAddr("192.0.2.3")}})
	for _, w := range workloads(t, f) {
		if was, ok := revisions[w.GetName()]; ok && was != Template(w).Annotations[AnnotationRevision] {
			t.Errorf("another relay replaces the pods of %s", w.GetName())
		}
	}
}

func TestKeysOfRelays(t *testing.T) {
	have, place := map[string]*corev1.Secret{}, facts().Place
	if written := keys(t, have, place, now); slices.Contains(written, RelaySecret) {
		t.Errorf("written without relays: %q", written)
	}
	place.Relays = []Member{{Node: "n2", Addresses: []netip.Addr{netip.MustParseAddr("192.0.2.2")}}}
	for range 2 {
		if written := keys(t, have, place, now); !slices.Equal(written, []string{RelaySecret}) {
			t.Errorf("written for relays: %q", written)
		}
		if written := keys(t, have, place, now); len(written) > 0 {
			t.Errorf("written again: %q", written)
		}
		place.Relays = append(place.Relays, Member{Node: "n3", Addresses: []netip.Addr{netip.MustParseAddr("192.0.2.3")}})
	}
}

// TestNextRelaysOfZones checks where relays may run in a cluster with zones: n1 and n2 are in no zone, n3 and n4 in east.
func TestNextRelaysOfZones(t *testing.T) {
	east := []networkv1alpha1.Zone{{Name: "east", NodeSelector: map[string]string{"relays": "yes"}}}
	for name, c := range map[string]struct {
		zone   string
		change func(*RelayFacts)
		want   string
	}{
		"on the zone's nodes":   {"east", func(*RelayFacts) {}, "n3=Starting n4=Starting"},
		"on nodes of no zone":   {"", func(*RelayFacts) {}, "n2=Starting n1=Starting"},
		"not beside another":    {"east", func(f *RelayFacts) { f.Others = before("n3=Leaving") }, "n4=Starting"},
		"not on its last place": {"east", func(f *RelayFacts) { f.podOf("relay", "n4", true) }, "n3=Starting"},
		"nor on that of another zone": {"east", func(f *RelayFacts) { f.podOf("relay-zone-west", "n4", true) },
			"n3=Starting"},
		"its own pods are ready": {"east", func(f *RelayFacts) { f.podOf("relay-zone-east", "n4", true) }, "n3=Starting n4=Ready"},
		"a node that left the zone": {"east", func(f *RelayFacts) {
			f.Before = before("n2=Ready", "n3=Ready")
			f.podOf("relay-zone-east", "n2", true)
			f.podOf("relay-zone-east", "n3", true)
			f.use("192.0.2.2")
		}, "n3=Ready n4=Starting n2=Leaving"},
	} {
		f := relayFacts(2)
		f.Zone, f.Zones = c.zone, east
		c.change(&f)
		if have := shown(NextRelays(f)); have != c.want {
			t.Errorf("%s: %s, want %s", name, have, c.want)
		}
	}
}

// TestLeftRelays checks the relays of a zone that left the spec: the relays that a node in the zone uses.
func TestLeftRelays(t *testing.T) {
	f := relayFacts(0)
	for zone, relays := range map[networkv1alpha1.ZoneName][]networkv1alpha1.IP{"": {"192.0.2.1"}, "east": {"192.0.2.4", "192.0.2.3"}} {
		nn := networkv1alpha1.NodeNetwork{}
		nn.Spec.Zone, nn.Spec.Relays = zone, relays
		f.Networks = append(f.Networks, nn)
	}
	if have, want := shown(LeftRelays("east", f.Nodes, f.Networks)), "n3=Leaving n4=Leaving"; have != want {
		t.Errorf("%s, want %s", have, want)
	}
	if have := LeftRelays("west", f.Nodes, f.Networks); have != nil {
		t.Errorf("a zone without nodes has %v", have)
	}
}

// TestRelaysOfZonesHaveNamesOfTheirOwn checks that the workloads of no two zones have one name, or select each other's pods.
func TestRelaysOfZonesHaveNamesOfTheirOwn(t *testing.T) {
	f := facts()
	relay := func(node, address string) []Member {
		return []Member{{Node: node, Addresses: []netip.Addr{netip.MustParseAddr(address)}}}
	}
	f.Place.Relays = relay("n2", "192.0.2.2")
	for i, name := range []string{"source", "zone", "source-zone", "zone-source", "z"} {
		f.Place.Zones = append(f.Place.Zones, Zone{Name: name, NodeSelector: map[string]string{"zone": name}, Place: Place{Wanted: 1,
			Members: relay("d-"+name, fmt.Sprintf("192.0.2.1%d", i)), Relays: relay("r-"+name, fmt.Sprintf("192.0.2.2%d", i))}})
	}
	names, selected := map[string]string{}, map[string]string{}
	for _, w := range workloads(t, f) {
		component := Template(w).Labels[networkv1alpha1.ComponentLabel]
		if names[w.GetName()] != "" || selected[component] != "" || w.GetName() != "weft-"+component {
			t.Errorf("%s has pods of component %s, like %s", w.GetName(), component, selected[component])
		}
		names[w.GetName()], selected[component] = component, w.GetName()
		p := &corev1.Pod{ObjectMeta: Template(w).ObjectMeta}
		d, ok := w.(*appsv1.DaemonSet)
		if ok && d.Spec.Selector.MatchLabels[networkv1alpha1.ComponentLabel] != component {
			t.Errorf("%s selects %v, but its pods have component %s", d.Name, d.Spec.Selector.MatchLabels, component)
		}
		if relay := strings.HasPrefix(w.GetName(), "weft-relay") && d.Spec.Template.Spec.Containers[0].Name == "relay"; IsRelay(p) != relay {
			t.Errorf("%s: a relay %t, want %t", w.GetName(), IsRelay(p), relay)
		}
		if source := strings.HasPrefix(w.GetName(), "weft-relay") && d.Spec.Template.Spec.Containers[0].Name == "source"; IsSource(p) != source {
			t.Errorf("%s: a source %t, want %t", w.GetName(), IsSource(p), source)
		}
	}
	for _, z := range f.Place.Zones {
		if names[RelaysOf(z.Name)] == "" || names[SourcesOf(z.Name)] == "" {
			t.Errorf("zone %s lacks %s or %s", z.Name, RelaysOf(z.Name), SourcesOf(z.Name))
		}
	}
}

// TestKeysOfRelaysInZones checks that the relays' key pair has the addresses of all zones' relays, also of zones that left the spec.
func TestKeysOfRelaysInZones(t *testing.T) {
	have, place := map[string]*corev1.Secret{}, zonedFacts().Place
	place.Zones[0].Frozen = true
	place.Zones[0].Place.Relays = []Member{{Node: "e-2", Addresses: []netip.Addr{netip.MustParseAddr("192.0.2.22")}}}
	if written := keys(t, have, place, now); !slices.Contains(written, RelaySecret) {
		t.Fatalf("written for a zone's relays: %q", written)
	}
	pair, err := tls.X509KeyPair(have[RelaySecret].Data[corev1.TLSCertKey], have[RelaySecret].Data[corev1.TLSPrivateKeyKey])
	if err != nil {
		t.Fatal(err)
	}
	if err := pair.Leaf.VerifyHostname("192.0.2.22"); err != nil {
		t.Error(err)
	}
}
