package render

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

// relayFacts are four nodes, of which n1 has the databases. n3 and n4 are labelled.
func relayFacts(count int32) RelayFacts {
	f := RelayFacts{Wanted: networkv1alpha1.Relays{Count: count}, Databases: Place{Members: []Member{{Node: "n1"}}}}
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

func (f *RelayFacts) pod(node string, ready bool) {
	p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "relay-" + node}, Spec: corev1.PodSpec{NodeName: node}}
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
