package rollout

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/install/render"
)

func relayedWorld(t *testing.T, r release) *world {
	w := newWorld(t, r, "n1", "n2", "n3")
	w.relays = []string{"n2", "n3"}
	w.settle()
	w.expect(networkv1alpha1.RolloutComplete)
	if want := []string{"apply weft-relay", "apply weft-relay-source"}; !slices.Equal(w.done, want) {
		t.Fatalf("the first relays took %q, want %q", w.done, want)
	}
	w.done = nil
	return w
}

// Relays follow the databases and are replaced one after the other. Open vSwitch's version is that of their program.
func TestRelaysInOrder(t *testing.T) {
	const nodes = "n1/ovn-controller n1/agent n2/ovn-controller n2/agent n3/ovn-controller n3/agent "
	for name, c := range map[string]struct {
		to   release
		want string
	}{
		"Weft alone":  {v2, nodes + "n1/relay-source operator"},
		"a newer OVN": {newOVN, nodes + "central n1/relay-source n2/relay n3/relay operator"},
	} {
		t.Run(name, func(t *testing.T) {
			w := relayedWorld(t, v1)
			w.wanted = c.to
			w.settle()
			w.expect(networkv1alpha1.RolloutComplete)
			if got := w.replaced(); got != c.want {
				t.Errorf("replaced\n%s, want\n%s", got, c.want)
			}
			w.done = nil
			if w.settle(); len(w.done) > 0 {
				t.Errorf("steps after completion: %q", w.done)
			}
		})
	}
}

// A relay that does not become ready stops the rollout before the next relay, unless its node is lost.
func TestARelayThatFails(t *testing.T) {
	w := relayedWorld(t, v1)
	w.wanted = newOVN
	w.unready[render.Relays+" "+newOVN.image()] = true
	w.settle()
	w.now = w.now.Add(2 * w.facts().Patience)
	w.settle()
	if s := w.expect(networkv1alpha1.RolloutStopped); s.Object != "DaemonSet/weft-relay" {
		t.Errorf("status %+v", s)
	}
	if slices.Contains(w.done, "replace n3/weft-relay") {
		t.Error("the other relay was replaced")
	}
}

// A changed source replaces relays one at a time, and none while another is away.
func TestRelaysAreRepairedInTurn(t *testing.T) {
	w := relayedWorld(t, v1)
	for _, name := range []string{"n2/weft-relay", "n3/weft-relay"} {
		w.pods[name].Annotations = map[string]string{render.AnnotationRevision: "another source"}
	}
	if step := Plan(w.facts()); !slices.Equal(step.Replace, []string{"n2/weft-relay"}) {
		t.Errorf("replaces %q", step.Replace)
	}
	w.pods["n2/weft-relay"].Annotations = render.Template(w.there[render.Relays]).Annotations
	w.pods["n2/weft-relay"].Status.Conditions[0].Status = corev1.ConditionFalse
	if step := Plan(w.facts()); len(step.Replace) > 0 {
		t.Errorf("replaces %q while a relay is not ready", step.Replace)
	}
}
