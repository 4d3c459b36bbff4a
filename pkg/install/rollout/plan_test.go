package rollout

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/install/render"
)

// Which pods are replaced, and in which order: OVN and Open vSwitch only if they changed, and ovn-northd never before
// an older ovn-controller.
func TestOrder(t *testing.T) {
	for name, c := range map[string]struct {
		from, to release
		want     string
	}{
		"Weft alone":           {v1, v2, "n1/ovn-controller n1/agent n2/ovn-controller n2/agent operator"},
		"and back":             {v2, v1, "n1/ovn-controller n1/agent n2/ovn-controller n2/agent operator"},
		"a newer OVN":          {v1, newOVN, "n1/ovn-controller n1/agent n2/ovn-controller n2/agent central operator"},
		"back to an older":     {newOVN, v1, "central n1/ovn-controller n1/agent n2/ovn-controller n2/agent operator"},
		"a newer Open vSwitch": {v1, newOVS, "n1/ovn-controller n1/agent n1/ovs n2/ovn-controller n2/agent n2/ovs operator"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, c.from, "n1", "n2")
			w.wanted = c.to
			w.settle()
			s := w.expect(networkv1alpha1.RolloutComplete)
			if got := w.replaced(); got != c.want {
				t.Errorf("replaced\n%s, want\n%s", got, c.want)
			}
			if s.Version != c.to.version || s.NodesDone != 2 || s.Northd != c.to.ovn {
				t.Errorf("status %+v", s)
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

// The number of nodes under way never exceeds the budget, and no second node starts before the first is proven.
func TestBudget(t *testing.T) {
	for _, budget := range []int32{1, 2} {
		w := newWorld(t, v1, "n1", "n2", "n3", "n4", "n5")
		w.network.Spec.Upgrade.MaxUnavailable = budget
		w.wanted = v2
		most := 0
		for range 200 {
			moved := w.turn()
			v := newView(w.facts())
			proven, underWay := 0, 0
			for i := range v.nodes {
				if n := &v.nodes[i]; v.proven(n) {
					proven++
				} else if v.released(render.Agents) && !v.untouched(n) {
					underWay++
				}
			}
			if limit := int(budget); underWay > limit || proven == 0 && underWay > 1 {
				t.Fatalf("%d nodes under way, %d proven, budget %d: %q", underWay, proven, limit, w.done)
			}
			if most = max(most, underWay); !moved {
				break
			}
		}
		w.expect(networkv1alpha1.RolloutComplete)
		if most != int(budget) {
			t.Errorf("at most %d nodes at a time, want %d", most, budget)
		}
	}
}

// If the canary reaches no other node, the rollout stops by itself after a while. The rollback is a rollout as well,
// and touches only that node.
func TestACanaryThatFails(t *testing.T) {
	w := newWorld(t, v1, "n1", "n2", "n3")
	w.broken["n1 "+v2.image()] = true
	w.wanted = v2
	w.settle()
	s := w.expect(networkv1alpha1.RolloutProgressing)
	if s.Stage != networkv1alpha1.StageCanary || s.Object != "Node/n1" || !strings.Contains(s.Message, "10.244.1.2") {
		t.Fatalf("status %+v", s)
	}
	w.now = w.now.Add(5*time.Minute - time.Second)
	w.settle()
	w.expect(networkv1alpha1.RolloutProgressing)
	w.now = w.now.Add(time.Second)
	w.settle()
	if s := w.expect(networkv1alpha1.RolloutStopped); s.Object != "Node/n1" ||
		!strings.Contains(s.Message, "does not answer; this has taken longer than 5m0s") {
		t.Errorf("status %+v", s)
	}
	if got := w.replaced(); got != "n1/ovn-controller n1/agent" {
		t.Errorf("replaced %s", got)
	}
	w.done, w.wanted = nil, v1
	w.settle()
	w.expect(networkv1alpha1.RolloutComplete)
	if got := w.replaced(); got != "n1/ovn-controller n1/agent" {
		t.Errorf("the rollback replaced %s", got)
	}
}

// A stopped rollout continues by itself when the node works after all.
func TestAStoppedRolloutContinues(t *testing.T) {
	w := newWorld(t, v1, "n1", "n2")
	w.broken["n1 "+v2.image()] = true
	w.wanted = v2
	w.settle()
	w.now = w.now.Add(time.Hour)
	w.settle()
	w.expect(networkv1alpha1.RolloutStopped)
	w.broken = nil
	w.settle()
	w.expect(networkv1alpha1.RolloutComplete)
}

// A short failure long after an object was replaced, for example while the databases are unreachable, does not stop
// the rollout.
func TestAMomentIsNoFailure(t *testing.T) {
	for name, disturb := range map[string]func(w *world, status string){
		"an agent's pod": func(w *world, status string) {
			w.pods["n1/weft-agent"].Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady,
				Status: corev1.ConditionStatus(status), LastTransitionTime: metav1.NewTime(w.now)}}
		},
		"a NodeNetwork": func(w *world, status string) {
			w.nets[0].Status.Conditions = []metav1.Condition{{Type: networkv1alpha1.ConditionReady,
				Status: metav1.ConditionStatus(status), LastTransitionTime: metav1.NewTime(w.now)}}
		},
	} {
		w := newWorld(t, v1, "n1", "n2")
		w.broken["n2 "+v2.image()] = true
		w.wanted = v2
		w.settle()
		w.broken = nil
		w.now = w.now.Add(time.Hour)
		disturb(w, "False")
		w.settle()
		w.expect(networkv1alpha1.RolloutProgressing)
		w.now = w.now.Add(time.Minute)
		disturb(w, "True")
		w.settle()
		if s := w.expect(networkv1alpha1.RolloutComplete); s.NodesDone != 2 {
			t.Errorf("%s: %+v", name, s)
		}
	}
}

// Pods that do not become ready stop the rollout too, at their stage.
func TestWhatDoesNotBecomeReady(t *testing.T) {
	for workload, want := range map[string]struct {
		to             release
		stage          networkv1alpha1.RolloutStage
		object, behind string
	}{
		render.Switches:    {newOVS, networkv1alpha1.StageCanary, "Node/n1", "n1/ovn-controller n1/agent n1/ovs"},
		render.Controllers: {v2, networkv1alpha1.StageCanary, "Node/n1", "n1/ovn-controller"},
		render.Agents:      {v2, networkv1alpha1.StageCanary, "Node/n1", "n1/ovn-controller n1/agent"},
		render.Central: {newOVN, networkv1alpha1.StageDatabases, "StatefulSet/weft-central",
			"n1/ovn-controller n1/agent n2/ovn-controller n2/agent central"},
		render.Operator: {v2, networkv1alpha1.StageOperator, "Deployment/weft-operator",
			"n1/ovn-controller n1/agent n2/ovn-controller n2/agent operator"},
	} {
		w := newWorld(t, v1, "n1", "n2")
		w.unready[workload+" "+want.to.image()] = true
		w.wanted = want.to
		w.settle()
		w.now = w.now.Add(6 * time.Minute)
		w.settle()
		s := w.expect(networkv1alpha1.RolloutStopped)
		if s.Stage != want.stage || s.Object != want.object || w.replaced() != want.behind {
			t.Errorf("%s: %+v, replaced %s", workload, s, w.replaced())
		}
	}
}

// A gateway that fails after its node's agent was replaced stops the rollout at that node. A failure from before does not.
func TestAGatewayThatFailsStopsTheRollout(t *testing.T) {
	for _, before := range []bool{true, false} {
		w := newWorld(t, v1, "n1", "n2")
		w.settle()
		fail := func() {
			w.nets[0].Status.Conditions = append(w.nets[0].Status.Conditions, metav1.Condition{Type: networkv1alpha1.ConditionGatewayReady,
				Status: metav1.ConditionFalse, Message: "no flows", LastTransitionTime: metav1.NewTime(w.now)})
		}
		if before {
			fail()
		}
		w.now = w.now.Add(time.Minute)
		w.wanted = v2
		w.broken["n1 "+v2.image()] = !before // its agent cannot probe until its gateway has failed
		w.settle()
		if before {
			w.expect(networkv1alpha1.RolloutComplete)
			continue
		}
		w.now = w.now.Add(time.Second)
		fail()
		w.broken = map[string]bool{}
		w.settle()
		w.now = w.now.Add(6 * time.Minute)
		w.settle()
		s := w.expect(networkv1alpha1.RolloutStopped)
		if s.Object != "Node/n1" || !strings.Contains(s.Message, "GatewayReady: no flows") || strings.Contains(w.replaced(), "n2") {
			t.Errorf("%+v, replaced %s", s, w.replaced())
		}
	}
}

// Answers from before a pod of the node or the databases was replaced do not count, whatever they contain.
func TestEarlierAnswersDoNotCount(t *testing.T) {
	w := newWorld(t, v1, "n1", "n2")
	w.wanted = newOVN
	requests := map[string]bool{}
	for w.turn() {
		for i := range w.nets {
			if request, ok := networkv1alpha1.ReadProbeRequest(w.nets[i].Annotations); ok {
				requests[w.nets[i].Name+" "+request.ID] = true
			}
		}
	}
	w.expect(networkv1alpha1.RolloutComplete)
	if len(requests) != 4 { // each node after its own pods, and after the databases'
		t.Errorf("requests %v", requests)
	}
}

// A lost node does not delay the rollout, and is upgraded when it is back. A node that is not ready comes last.
func TestLostAndBrokenNodes(t *testing.T) {
	w := newWorld(t, v1, "n1", "n2", "n3")
	w.nodes[1].Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown}}
	w.nets[0].Status.Conditions[0].Status = metav1.ConditionFalse
	w.wanted = v2
	w.settle()
	if got := w.replaced(); got != "n3/ovn-controller n3/agent n1/ovn-controller n1/agent" {
		t.Errorf("replaced %s", got)
	}
	if s := w.expect(networkv1alpha1.RolloutProgressing); s.Object != "Node/n1" || s.Nodes != 2 || s.NodesDone != 1 {
		t.Errorf("status %+v", s)
	}
	w.nets[0].Status.Conditions[0].Status = metav1.ConditionTrue
	w.settle()
	w.expect(networkv1alpha1.RolloutComplete)
	w.done, w.nodes[1].Status.Conditions = nil, nil
	w.settle()
	w.expect(networkv1alpha1.RolloutComplete)
	if got := w.replaced(); got != "n2/ovn-controller n2/agent" {
		t.Errorf("when it is back: %s", got)
	}
}

// Open vSwitch keeps its pod, and the node's answer counts only after the containers were restarted. If the node
// becomes silent then, the canary has failed and no other node follows.
func TestOpenVSwitchIsRestarted(t *testing.T) {
	w := newWorld(t, v1, "n1", "n2")
	uid := w.pods["n1/weft-ovs"].UID
	w.stuck, w.wanted = true, newOVS
	w.settle()
	if s := w.expect(networkv1alpha1.RolloutProgressing); s.Object != "Node/n1" ||
		!strings.Contains(s.Message, "n1/weft-ovs is not ready: its containers are being restarted") {
		t.Errorf("status %+v", s)
	}
	w.now = w.now.Add(time.Minute)
	w.nodes[0].Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown,
		LastTransitionTime: metav1.NewTime(w.now)}}
	w.settle()
	w.expect(networkv1alpha1.RolloutProgressing)
	w.now = w.now.Add(5 * time.Minute)
	w.settle()
	s := w.expect(networkv1alpha1.RolloutStopped)
	if s.Object != "Node/n1" || !strings.Contains(s.Message, "its kubelet has not reported") {
		t.Errorf("status %+v", s)
	}
	if got := w.replaced(); got != "n1/ovn-controller n1/agent n1/ovs" {
		t.Errorf("replaced %s", got)
	}
	w.stuck, w.nodes[0].Status.Conditions = false, nil
	w.settle()
	w.expect(networkv1alpha1.RolloutComplete)
	if p := w.pods["n1/weft-ovs"]; p.UID != uid || render.ImageOf(p.Spec) != newOVS.image() {
		t.Errorf("pod %s is %s with image %s, was %s", p.Name, p.UID, render.ImageOf(p.Spec), uid)
	}
}

// Objects of the wanted image are repaired at once, within the budget of repairs; no node has to prove anything.
func TestRepair(t *testing.T) {
	w := newWorld(t, v1, "n1", "n2")
	delete(w.there, render.Operator)
	w.there[render.Agents] = w.there[render.Agents].DeepCopyObject().(render.Workload)
	render.Template(w.there[render.Agents]).Spec.HostNetwork = false
	render.Template(w.there[render.Agents]).Spec.Containers[0].Image = "foreign:image"
	w.turn()
	if want := []string{"apply weft-agent", "apply weft-operator"}; !slices.Equal(w.done, want) {
		t.Errorf("%q, want %q", w.done, want)
	}
	w.done = nil
	for _, name := range []string{"n1/weft-agent", "n2/weft-agent", "n1/weft-ovs"} {
		w.pods[name].Annotations = map[string]string{render.AnnotationRevision: "databases on another node"}
	}
	if step := Plan(w.facts()); !slices.Equal(step.Replace, []string{"n1/weft-agent", "n1/weft-ovs"}) {
		t.Errorf("replaces %q", step.Replace)
	}
	w.nets[0].Status.DatapathType = networkv1alpha1.DatapathNetdev // without Open vSwitch the node could not learn of a new pod
	if step := Plan(w.facts()); !slices.Equal(step.Replace, []string{"n1/weft-agent"}) {
		t.Errorf("on the userspace datapath replaces %q", step.Replace)
	}
	w.nets[0].Status.DatapathType = networkv1alpha1.DatapathSystem
	w.pods["n2/weft-agent"].Status.Conditions = nil // a pod that is not ready needs no budget
	if step := Plan(w.facts()); !slices.Contains(step.Replace, "n2/weft-agent") {
		t.Errorf("replaces %q", step.Replace)
	}
	w.settle()
	if s := w.expect(networkv1alpha1.RolloutComplete); s.Since.IsZero() {
		t.Errorf("status %+v", s)
	}
	if len(w.nets[0].Annotations)+len(w.nets[1].Annotations) > 0 {
		t.Error("nodes were requested to probe")
	}
}

// An image that does not declare its programs replaces everything.
func TestAnImageWithoutPrograms(t *testing.T) {
	w := newWorld(t, v1, "n1")
	f := w.facts()
	f.Operand.Programs, f.Operand.Image = nil, "weft:unknown"
	all, err := render.Workloads(f.Operand)
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range all {
		f.Wanted[one.GetName()] = one
	}
	v := newView(f)
	for _, name := range onNode {
		if !v.old(name, v.nodes[0].pods[name]) {
			t.Errorf("%s is kept", name)
		}
	}
	if !v.old(render.Central, v.central) {
		t.Error("the databases are kept")
	}
}

func TestPreflight(t *testing.T) {
	for name, c := range map[string]struct {
		to     release
		change func(*world)
		want   string
	}{
		"a version is skipped": {skipped, func(*world) {}, "Node/n1: its agent has version v1.0.0: an upgrade to v1.2.0 skips"},
		"an older kernel": {v2, func(w *world) {
			w.nodes[1].Status.NodeInfo.KernelVersion = "4.19.0-27-amd64"
		}, "Node/n2: its kernel is 4.19.0-27-amd64, but at least 5.4"},
		"an older OVN": {release{"v1.1.0", "22.03.1", "3.5.0"}, func(*world) {}, "OVN 22.03.1, but at least 24.03 is required"},
		"another network": {v2, func(w *world) {
			w.network.Status.Computed = &networkv1alpha1.ClusterNetworkSpec{
				ClusterNetwork: []networkv1alpha1.ClusterNetworkEntry{{CIDR: "10.1.0.0/16"}}}
		}, "spec.clusterNetwork no longer contains 10.1.0.0/16"},
		"other services": {v2, func(w *world) {
			w.network.Status.Computed = &networkv1alpha1.ClusterNetworkSpec{ServiceNetwork: []networkv1alpha1.CIDR{"10.1.0.0/16"}}
		}, "spec.serviceNetwork was changed from [10.1.0.0/16]"},
		"another join switch": {v2, func(w *world) {
			w.network.Status.Computed = &networkv1alpha1.ClusterNetworkSpec{JoinSubnet: []networkv1alpha1.CIDR{"10.1.0.0/16"}}
		}, "spec.joinSubnet no longer contains 10.1.0.0/16"},
	} {
		w := newWorld(t, v1, "n1", "n2")
		c.change(w)
		w.wanted = c.to
		w.settle()
		s := w.expect(networkv1alpha1.RolloutBlocked)
		if !strings.Contains(s.Text(), c.want) || s.Stage != networkv1alpha1.StagePreflight {
			t.Errorf("%s: %s", name, s.Text())
		}
		if len(w.done) > 0 {
			t.Errorf("%s: %q", name, w.done)
		}
		w.wanted = v1
		w.settle()
		w.expect(networkv1alpha1.RolloutComplete)
	}
	w := newWorld(t, v1, "n1", "n2")
	w.nodes[0].Status.NodeInfo.KernelVersion, w.nodes[1].Status.NodeInfo.KernelVersion = "6.12.41+deb13-amd64", "5.14.0-427.el9"
	w.wanted = release{"v0.0.0-20260102030405-abcdef012345", "25.03.0", "3.5.0"}
	w.settle()
	w.expect(networkv1alpha1.RolloutComplete)
}
