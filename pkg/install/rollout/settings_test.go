package rollout

import (
	"strings"
	"testing"
	"time"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/install/render"
)

func level(l networkv1alpha1.LogLevel) networkv1alpha1.Component {
	return networkv1alpha1.Component{LogLevel: l}
}

// Settings replace the pods of their component, a node after the other, and so does their end.
func TestSettings(t *testing.T) {
	debug := level(networkv1alpha1.LogDebug)
	agent := networkv1alpha1.AgentComponent{Component: debug}
	for name, c := range map[string]struct {
		set  networkv1alpha1.Components
		want string
	}{
		"of the agent":           {networkv1alpha1.Components{Agent: agent}, "n1/agent n2/agent n3/agent"},
		"of ovn-controller":      {networkv1alpha1.Components{OVNController: debug}, "n1/ovn-controller n2/ovn-controller n3/ovn-controller"},
		"of Open vSwitch":        {networkv1alpha1.Components{OpenVSwitch: debug}, "n1/ovs n2/ovs n3/ovs"},
		"of the databases":       {networkv1alpha1.Components{Central: debug}, "central"},
		"of the operator":        {networkv1alpha1.Components{Operator: networkv1alpha1.OperatorComponent{Component: debug}}, "operator"},
		"of what does not exist": {networkv1alpha1.Components{IKE: debug}, ""},
		"of two components": {networkv1alpha1.Components{OVNController: debug, Agent: agent},
			"n1/ovn-controller n1/agent n2/ovn-controller n2/agent n3/ovn-controller n3/agent"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, v1, "n1", "n2", "n3")
			for _, set := range []networkv1alpha1.Components{c.set, {}} {
				w.set, w.done = set, nil
				w.settle()
				s := w.expect(networkv1alpha1.RolloutComplete)
				if have := w.replaced(); have != c.want {
					t.Errorf("replaced\n%s, want\n%s", have, c.want)
				}
				if want, err := render.SettingsDigest(set); err != nil || s.Settings != want {
					t.Errorf("settings %q, want %q, %v", s.Settings, want, err)
				}
				w.done = nil
				if w.settle(); len(w.done) > 0 {
					t.Errorf("steps after completion: %q", w.done)
				}
			}
		})
	}
}

// Settings that break the first node stop there. Their end mends it.
func TestSettingsThatFail(t *testing.T) {
	w := newWorld(t, v1, "n1", "n2", "n3")
	w.set.Agent.Component = level(networkv1alpha1.LogDebug)
	digest := w.facts().Wanted[render.Agents].GetAnnotations()[render.AnnotationSettings]
	w.unready[render.Agents+" "+digest] = true
	w.settle()
	w.now = w.now.Add(time.Hour)
	w.settle()
	s := w.expect(networkv1alpha1.RolloutStopped)
	const why = "n1/weft-agent is not ready"
	if have := w.replaced(); have != "n1/agent" || s.Stage != networkv1alpha1.StageCanary || !strings.Contains(s.Text(), why) {
		t.Errorf("replaced %s; %s", have, s.Text())
	}
	w.set, w.done = networkv1alpha1.Components{}, nil
	w.settle()
	w.expect(networkv1alpha1.RolloutComplete)
	if have := w.replaced(); have != "n1/agent" {
		t.Errorf("then replaced %s", have)
	}
}

// Settings of Open vSwitch replace no pod on a node that has no network without it. An image reaches it nevertheless.
func TestSettingsOfOpenVSwitchInUserspace(t *testing.T) {
	w := newWorld(t, v1, "n1", "n2")
	w.nets[1].Status.DatapathType = networkv1alpha1.DatapathNetdev
	w.set.OpenVSwitch = level(networkv1alpha1.LogDebug)
	w.settle()
	w.expect(networkv1alpha1.RolloutComplete)
	if have := w.replaced(); have != "n1/ovs" {
		t.Errorf("replaced %s", have)
	}
	w.wanted, w.done = newOVS, nil
	w.settle()
	w.expect(networkv1alpha1.RolloutComplete)
	if image := render.ImageOf(w.pods["n2/"+render.Switches].Spec); image != newOVS.image() {
		t.Errorf("n2 has image %s", image)
	}
}

// Settings and a version together are one rollout.
func TestSettingsWithAVersion(t *testing.T) {
	w := newWorld(t, v1, "n1", "n2")
	w.set.Agent.Component, w.wanted = level(networkv1alpha1.LogDebug), v2
	w.settle()
	w.expect(networkv1alpha1.RolloutComplete)
	if have := w.replaced(); have != "n1/ovn-controller n1/agent n2/ovn-controller n2/agent operator" {
		t.Errorf("replaced %s", have)
	}
}
