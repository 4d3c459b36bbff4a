package selection

import (
	"context"
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/topology"
	"github.com/weft-network/weft/pkg/unit"
)

var red, blue, noisy = labels.Set{"team": "red"}, labels.Set{"team": "blue"}, labels.Set{"team": "red", "noise": "1"}

// inRed selects pods with app=web in namespaces with team=red.
func inRed() facts.PodSelector {
	s := selects("", "app=web")
	s.Namespaces = labels.SelectorFromSet(red)
	return s
}

func (q queued) use(t *testing.T, selectors ...facts.PodSelector) {
	t.Helper()
	policy, want := topology.NetworkPolicyKey("demo", "p"), map[unit.Key]facts.PodSelector{}
	for _, selector := range selectors {
		want[topology.PodSetKey(selector)] = selector
	}
	if err := q.Use(t.Context(), policy, want, these()); err != nil {
		t.Fatal(err)
	}
	q.Drop(policy, want)
}

// relabel changes the labels of the namespace demo. meanwhile is called while its pods are being listed. It returns
// what the units joined and left.
func (q queued) relabel(t *testing.T, before, after labels.Set, meanwhile func(), pods ...facts.SelectedPod) (regrouped string) {
	t.Helper()
	q.units.regrouped = nil
	if err := q.Relabel(t.Context(), before, after, func(context.Context) ([]facts.SelectedPod, error) {
		meanwhile()
		for i := range pods {
			pods[i].NamespaceLabels = after
		}
		return pods, nil
	}); err != nil {
		t.Fatal(err)
	}
	if len(q.units.regrouped) > 1 {
		t.Errorf("%d calls of the engine, which could be as many transactions", len(q.units.regrouped))
	}
	for _, changes := range q.units.regrouped {
		for _, c := range changes {
			regrouped += fmt.Sprintf("+%v -%v in %d;", c.Join, c.Leave, len(c.Rows))
		}
	}
	return regrouped
}

func nothing() {}

// A change of a namespace's labels matters if a selector of namespaces, or a named port of one, gets another answer.
func TestWhichLabelsOfNamespacesMatter(t *testing.T) {
	s := newQueued()
	s.Begin()
	policy := topology.NetworkPolicyKey("demo", "p")
	expect := func(when string, want bool) {
		t.Helper()
		matters := func(before, after labels.Set) (listed bool) {
			s.relabel(t, before, after, func() { listed = true })
			return listed
		}
		if matters(red, blue) != want || matters(blue, red) != want || matters(red, noisy) {
			t.Errorf("%s: the label of a selector matters: %t, want %t, or another label matters", when, !want, want)
		}
	}
	s.use(t, selects("demo", "app=web"), facts.AllPods())
	expect("selectors of one namespace and of all", false)
	s.use(t, inRed())
	expect("a selector of red namespaces", true)
	s.use(t)
	expect("a selector that is not used any more", false)
	s.Read(policy, []*Port{NewPort(inRed(), facts.NamedPort{Name: "http", Protocol: corev1.ProtocolTCP})})
	expect("a named port in red namespaces", true)
	s.Read(policy, nil)
	expect("a named port that is not read any more", false)
	if len(s.relabels) > 0 {
		t.Errorf("left %v", s.relabels)
	}
}

// The units of a relabelled namespace's pods join and leave by one call, and no pod is reconciled.
func TestPodsOfARelabelledNamespace(t *testing.T) {
	s := newQueued()
	s.Begin()
	s.use(t, inRed())
	web, other := aPod("web", labels.Set{"app": "web"}), aPod("other", labels.Set{"app": "other"})
	if got, want := s.relabel(t, blue, red, nothing, web, other), "+[pod/demo/web] -[pod/demo/other] in 2;"; got != want {
		t.Errorf("red: %s, want %s", got, want)
	}
	if got, want := s.relabel(t, red, blue, nothing, web, other), "+[] -[pod/demo/web pod/demo/other] in 2;"; got != want {
		t.Errorf("blue: %s, want %s", got, want)
	}
	if got := s.take(topology.KindPod); len(got) > 0 {
		t.Errorf("enqueued %v", got)
	}
}

// A pod whose reconciliation began before the change is reconciled again. A unit whose pod was reconciled since has the
// new labels, and perhaps a later state of the pod than the list.
func TestARelabelledNamespaceWithPodsUnderway(t *testing.T) {
	s := newQueued()
	s.Begin()
	s.use(t, inRed())
	pods := []facts.SelectedPod{}
	for _, name := range []string{"before", "since", "done", "idle"} {
		pods = append(pods, aPod(name, labels.Set{"app": "web"}))
	}
	s.Started("pod/demo/before")
	got := s.relabel(t, blue, red, func() {
		s.reconcile("done")
		s.Started("pod/demo/since")
	}, pods...)
	if want := "+[pod/demo/idle] -[] in 2;"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got := s.take(topology.KindPod); !slices.Equal(got, []string{"demo/before"}) {
		t.Errorf("enqueued %v, want the pod whose reconciliation began before", got)
	}
}

// While a process starts, and while a selector's pods are being listed, the pods are reconciled.
func TestARelabelledNamespaceBeforeAllIsSettled(t *testing.T) {
	s := newQueued()
	s.use(t, inRed())
	web := aPod("web", labels.Set{"app": "web"})
	expect := func(when, joined string, enqueued ...string) {
		t.Helper()
		if got := s.relabel(t, blue, red, nothing, web); got != joined {
			t.Errorf("%s: %s, want %q", when, got, joined)
		}
		if got := s.take(topology.KindPod); !slices.Equal(got, enqueued) {
			t.Errorf("%s: enqueued %v, want %v", when, got, enqueued)
		}
	}
	expect("at the start", "", "demo/web")
	s.Begin()
	expect("before the policy has listed the selector's pods", "", "demo/web")
	s.use(t, inRed())
	expect("then", "+[pod/demo/web] -[] in 2;")
}

// A policy is read again when a label of a namespace changes the numbers of a named port.
func TestNamedPortsOfARelabelledNamespace(t *testing.T) {
	s := newQueued()
	s.Begin()
	http := facts.NamedPort{Name: "http", Protocol: corev1.ProtocolTCP}
	s.Read(topology.NetworkPolicyKey("demo", "p"), []*Port{NewPort(inRed(), http)})
	http.Number = 8080
	web := aPod("web", labels.Set{"app": "web"}, http)
	s.take(topology.KindNetworkPolicy)
	for i, step := range []struct {
		before, after labels.Set
		want          int
	}{{blue, red, 1}, {blue, red, 0}, {red, blue, 1}, {red, noisy, 0}} {
		s.relabel(t, step.before, step.after, nothing, web)
		if got := s.take(topology.KindNetworkPolicy); len(got) != step.want {
			t.Errorf("step %d: enqueued %v, want %d policies", i, got, step.want)
		}
	}
}
