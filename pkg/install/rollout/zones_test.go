package rollout

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/install/render"
)

// zonedWorld has the zone east, in which n2 is, and the zone west, in which n3 is.
func zonedWorld(t *testing.T, r release) *world {
	w := newWorld(t, r, "n1", "n2", "n3")
	w.zones = []string{"east", "west"}
	w.settle()
	w.expect(networkv1alpha1.RolloutComplete)
	want := []string{"apply weft-central-east", "apply weft-central-west", "apply weft-operator-east", "apply weft-operator-west"}
	ofZones := slices.DeleteFunc(w.done, func(step string) bool { // with zones, the databases' pod has another container
		return step == "apply "+render.Central || step == "replace central"
	})
	if !slices.Equal(ofZones, want) {
		t.Fatalf("the first zones took %q, want %q", ofZones, want)
	}
	for i, zone := range w.zones {
		w.nets[i+1].Spec.Zone = networkv1alpha1.ZoneName(zone)
	}
	w.settle()
	w.done = nil
	return w
}

// The databases of zones follow the databases, and their operators follow the operator.
func TestZonesInOrder(t *testing.T) {
	const (
		nodes    = "n1/ovn-controller n1/agent n2/ovn-controller n2/agent n3/ovn-controller n3/agent"
		centrals = "central central-east central-west"
		all      = "operator operator-east operator-west"
	)
	for name, c := range map[string]struct {
		from, to release
		want     []string
	}{
		"a newer OVN":      {v1, newOVN, []string{nodes, centrals, all}},
		"back to an older": {newOVN, v1, []string{centrals, nodes, all}},
	} {
		t.Run(name, func(t *testing.T) {
			w := zonedWorld(t, c.from)
			w.wanted = c.to
			w.settle()
			w.expect(networkv1alpha1.RolloutComplete)
			if got, want := w.replaced(), strings.Join(c.want, " "); got != want {
				t.Errorf("replaced\n%s, want\n%s", got, want)
			}
			for name := range w.there {
				if image := render.ImageOf(render.Template(w.there[name]).Spec); image != c.to.image() {
					t.Errorf("%s has image %s", name, image)
				}
			}
			w.done = nil
			if w.settle(); len(w.done) > 0 {
				t.Errorf("steps after completion: %q", w.done)
			}
		})
	}
}

// A workload of a zone that does not become ready stops the rollout before the same workload of the next zone.
func TestAZoneThatFails(t *testing.T) {
	for workload, c := range map[string]struct{ object, next string }{
		"weft-central-east":  {"StatefulSet/weft-central-east", "replace central-west"},
		"weft-operator-east": {"Deployment/weft-operator-east", "apply weft-operator-west"},
	} {
		w := zonedWorld(t, v1)
		w.wanted = newOVN
		w.unready[workload+" "+newOVN.image()] = true
		w.settle()
		w.now = w.now.Add(2 * w.facts().Patience)
		w.settle()
		if s := w.expect(networkv1alpha1.RolloutStopped); s.Object != c.object {
			t.Errorf("%s: status %+v", workload, s)
		}
		if slices.Contains(w.done, c.next) {
			t.Errorf("%s: %s", workload, c.next)
		}
	}
}

// Databases of a zone that are not ready are replaced before the nodes, because nodes of the zone could not be proven.
func TestTheDatabasesOfAZoneAreRepairedFirst(t *testing.T) {
	w := zonedWorld(t, v1)
	w.pods["central-west"].Status.Conditions[0].Status = corev1.ConditionFalse
	w.wanted = newOVN
	w.settle()
	w.expect(networkv1alpha1.RolloutComplete)
	if got := w.replaced(); !strings.HasPrefix(got, "central-west n1/ovn-controller") {
		t.Errorf("replaced %s", got)
	}
}

// A new zone gets the wanted version even if the rollout may not begin, and does not begin it.
func TestANewZoneInABlockedRollout(t *testing.T) {
	w := newWorld(t, v1, "n1", "n2", "n3")
	w.wanted, w.output = v2, "hangs"
	w.settle()
	before := w.expect(networkv1alpha1.RolloutProgressing)
	w.zones, w.done = []string{"east"}, nil
	w.settle()
	if s := w.expect(networkv1alpha1.RolloutProgressing); s.Stage != before.Stage || s.Message != before.Message {
		t.Errorf("status %+v, want %+v", s, before)
	}
	if want := []string{"apply weft-central-east", "apply weft-operator-east"}; !slices.Equal(w.done, want) {
		t.Errorf("steps %q, want %q", w.done, want)
	}
}

// Changed databases of zones are replaced one at a time, and none while others are away.
func TestZonesAreRepairedInTurn(t *testing.T) {
	w := zonedWorld(t, v1)
	for _, name := range []string{"central-east", "central-west"} {
		w.pods[name].Annotations = map[string]string{render.AnnotationRevision: "another"}
	}
	if step := Plan(w.facts()); !slices.Equal(step.Replace, []string{"central-east"}) {
		t.Errorf("replaces %q", step.Replace)
	}
	w.pods["central"].Status.Conditions[0].Status = corev1.ConditionFalse
	if step := Plan(w.facts()); len(step.Replace) > 0 {
		t.Errorf("replaces %q while the databases are not ready", step.Replace)
	}
	w.pods["central-west"].Status.Conditions[0].Status = corev1.ConditionFalse
	if step := Plan(w.facts()); !slices.Equal(step.Replace, []string{"central-west"}) {
		t.Errorf("replaces %q, want the pod that is not ready", step.Replace)
	}
	w.pods["central-west"].Status.Conditions[0].Status = corev1.ConditionTrue
	w.pods["central-west"].Spec.NodeName = "n1"
	if step := Plan(w.facts()); !slices.Equal(step.Replace, []string{"central-west"}) {
		t.Errorf("replaces %q, want the pod on another node", step.Replace)
	}
}

// A node's proof depends on the databases of its zone, and on no others.
func TestANodeIsProvenWithTheDatabasesOfItsZone(t *testing.T) {
	w := zonedWorld(t, v1)
	id := func(i int) string {
		v := newView(w.facts())
		return v.id(&v.nodes[i])
	}
	outside, east := id(0), id(1)
	w.pods["central-east"].UID = "another"
	if id(0) != outside {
		t.Error("the databases of a zone count for a node outside zones")
	}
	if id(1) == east {
		t.Error("the databases of a zone do not count for its node")
	}
}

// The members of a zone's databases are replaced one after the other, each while the others are ready.
func TestMembersOfAZone(t *testing.T) {
	w := newWorld(t, v1, "n1", "n2", "n3", "n4")
	w.zones = []string{"east"}
	w.settle()

	// One becomes three: the pod of the only member is replaced although the others wait for it.
	w.zoneMembers, w.done = 3, nil
	w.settle()
	p := w.pods["central-east"]
	if p == nil || p.Annotations[render.AnnotationMembers] != "3" || w.pods["central-east3"] == nil {
		t.Fatalf("pods %v, steps %q", p, w.done)
	}
	w.done, w.wanted = nil, newOVN
	w.settle()
	w.expect(networkv1alpha1.RolloutComplete)
	members := map[string]int{}
	for _, step := range w.done {
		if name, ok := strings.CutPrefix(step, "replace central-east"); ok {
			members[name]++
		}
	}
	if len(members) != 3 || members[""] != 1 || members["2"] != 1 || members["3"] != 1 {
		t.Errorf("replaced members %v: %q", members, w.done)
	}

	// While a member is not ready, the others are not replaced.
	w.done, w.wanted = nil, v1
	w.unready[render.CentralOf("east")+" "+v1.image()] = true
	w.settle()
	old := 0
	for _, name := range []string{"central-east", "central-east2", "central-east3"} {
		if render.ImageOf(w.pods[name].Spec) == newOVN.image() {
			old++
		}
	}
	if old != 2 {
		t.Errorf("%d members have the old image, want 2: %q", old, w.done)
	}
}

// The relays of zones follow the other relays, and are replaced one after the other. A relay that does not become ready stops the
// rollout before the next.
func TestRelaysOfZones(t *testing.T) {
	relayed := func(t *testing.T) *world {
		w := zonedWorld(t, v1)
		w.relays, w.zoneRelays = []string{"n1"}, map[string][]string{"west": {"n2", "n3"}}
		w.settle()
		w.expect(networkv1alpha1.RolloutComplete)
		slices.Sort(w.done)
		if want := []string{"apply weft-relay", "apply weft-relay-source", "apply weft-relay-source-zone-west",
			"apply weft-relay-zone-west"}; !slices.Equal(w.done, want) {
			t.Fatalf("the first relays took %q, want %q", w.done, want)
		}
		w.done = nil
		return w
	}
	w := relayed(t)
	w.wanted = newOVN
	w.settle()
	w.expect(networkv1alpha1.RolloutComplete)
	const want = "n1/relay-source n1/relay n3/relay-source-zone-west n2/relay-zone-west n3/relay-zone-west operator"
	if got := w.replaced(); !strings.Contains(got, want) {
		t.Errorf("replaced\n%s, want\n%s", got, want)
	}

	w = relayed(t)
	w.wanted = newOVN
	w.unready[render.RelaysOf("west")+" "+newOVN.image()] = true
	w.settle()
	w.now = w.now.Add(2 * w.facts().Patience)
	w.settle()
	if s := w.expect(networkv1alpha1.RolloutStopped); s.Object != "DaemonSet/weft-relay-zone-west" {
		t.Errorf("status %+v", s)
	}
	if slices.Contains(w.done, "replace n3/weft-relay-zone-west") {
		t.Error("the zone's other relay was replaced")
	}
}
