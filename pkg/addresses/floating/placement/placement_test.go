package placement

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/addresses/floating"
)

func podOf(t *testing.T, spec string) *corev1.Pod {
	t.Helper()
	pod := &corev1.Pod{}
	if err := yaml.UnmarshalStrict([]byte(spec), &pod.Spec); err != nil {
		t.Fatal(err)
	}
	return pod
}

func selectorOf(t testing.TB, text string) labels.Selector {
	t.Helper()
	parsed, err := metav1.ParseToLabelSelector(text)
	if err != nil {
		t.Fatal(err)
	}
	selector, err := metav1.LabelSelectorAsSelector(parsed)
	if err != nil {
		t.Fatal(err)
	}
	return selector
}

// The nodes of a pod are the nodes that its node selector, its node affinity and its tolerations allow.
func TestNodes(t *testing.T) {
	node := func(name, rack string, taints ...corev1.Taint) corev1.Node {
		return corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"rack": rack}},
			Spec: corev1.NodeSpec{Taints: taints}}
	}
	all := []corev1.Node{node("a", "1"), node("b", "2"),
		node("control", "1", corev1.Taint{Key: "control", Effect: corev1.TaintEffectNoSchedule}),
		node("failing", "2", corev1.Taint{Key: "failing", Effect: corev1.TaintEffectNoExecute}),
		node("busy", "2", corev1.Taint{Key: "busy", Effect: corev1.TaintEffectPreferNoSchedule}), node("cordoned", "1")}
	all[5].Spec.Unschedulable = true
	for spec, want := range map[string]string{
		"{}":                            "a b busy",
		"{nodeSelector: {rack: \"1\"}}": "a",
		"{nodeSelector: {rack: \"3\"}}": "",
		"{tolerations: [{key: control, operator: Exists}]}":                          "a b control busy",
		"{tolerations: [{operator: Exists}]}":                                        "a b control failing busy cordoned",
		"{tolerations: [{key: node.kubernetes.io/unschedulable, operator: Exists}]}": "a b busy cordoned",
		"{affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [" +
			"{matchFields: [{key: metadata.name, operator: In, values: [b]}]}, " +
			"{matchExpressions: [{key: rack, operator: In, values: [\"1\"]}]}]}}}}": "a b",
		"{affinity: {nodeAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, preference: " +
			"{matchExpressions: [{key: rack, operator: In, values: [\"1\"]}]}}]}}}": "a b busy",
	} {
		var got []string
		for _, n := range Nodes(podOf(t, spec), all) {
			got = append(got, n.Name)
		}
		if have := strings.Join(got, " "); have != want {
			t.Errorf("%s: nodes %q, want %q", spec, have, want)
		}
	}
}

// A pod that had a placement is confined in each of its terms.
func TestConfine(t *testing.T) {
	const on1 = "{key: rack, operator: In, values: [\"1\"]}"
	const terms = "affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: "
	for _, c := range []struct{ spec, selectors, want string }{
		{"{}", "", "{}"},
		{"{}", "rack=1", "{" + terms + "[{matchExpressions: [" + on1 + "]}]}}}}"},
		{"{}", "rack in (2,1);zone;!old;rack in (2,1);os notin (x)", "{" + terms +
			"[{matchExpressions: [{key: rack, operator: In, values: [\"1\",\"2\"]}, " +
			"{key: zone, operator: Exists}, {key: old, operator: DoesNotExist}, {key: os, operator: NotIn, values: [x]}]}]}}}}"},
		{"{" + terms + "[{matchFields: [{key: metadata.name, operator: In, values: [n]}]}, " +
			"{matchExpressions: [{key: a, operator: Exists}]}, {}]}}}}", "rack=1",
			"{" + terms + "[{matchFields: [{key: metadata.name, operator: In, values: [n]}], " +
				"matchExpressions: [" + on1 + "]}, {matchExpressions: [{key: a, operator: Exists}, " + on1 + "]}, {}]}}}}"},
		{"{affinity: {podAntiAffinity: {}}}", "rack=1",
			"{affinity: {podAntiAffinity: {}, " + strings.TrimPrefix(terms, "affinity: {") + "[{matchExpressions: [" + on1 + "]}]}}}}"},
	} {
		var selectors []labels.Selector
		for _, text := range strings.FieldsFunc(c.selectors, func(r rune) bool { return r == ';' }) {
			selectors = append(selectors, selectorOf(t, text))
		}
		pod := podOf(t, c.spec)
		before := pod.Spec // a shallow copy, as the cache has the pod's affinity
		if err := Confine(pod, selectors); err != nil {
			t.Errorf("%s with %s: %v", c.spec, c.selectors, err)
		}
		if diff := cmp.Diff(podOf(t, c.want).Spec, pod.Spec, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s with %s:\n%s", c.spec, c.selectors, diff)
		}
		if diff := cmp.Diff(podOf(t, c.spec).Spec, before); diff != "" {
			t.Errorf("%s was changed:\n%s", c.spec, diff)
		}
	}
	greater, err := labels.NewRequirement("rack", selection.GreaterThan, []string{"1"})
	if err != nil {
		t.Fatal(err)
	}
	for _, selector := range []labels.Selector{labels.Nothing(), labels.NewSelector().Add(*greater)} {
		if err := Confine(&corev1.Pod{}, []labels.Selector{selector}); err == nil {
			t.Errorf("selector %q confines a pod", selector)
		}
	}
}

// A confined pod goes to a node exactly if it did before, and all selectors match the node.
func TestConfineMeansTheSelectors(t *testing.T) {
	expressions := []string{"rack=1", "rack in (1,2)", "rack notin (1)", "zone", "!zone", "zone notin (b)", "rack=2,zone=a", ""}
	rapid.Check(t, func(rt *rapid.T) {
		pod := &corev1.Pod{}
		if rapid.Bool().Draw(rt, "selects") {
			pod.Spec.NodeSelector = map[string]string{"rack": rapid.SampledFrom([]string{"1", "2"}).Draw(rt, "rack")}
		}
		for range rapid.IntRange(0, 2).Draw(rt, "earlier") {
			if err := Confine(pod, []labels.Selector{selectorOf(t, rapid.SampledFrom(expressions).Draw(rt, "had"))}); err != nil {
				rt.Fatal(err)
			}
		}
		var selectors []labels.Selector
		for range rapid.IntRange(0, 3).Draw(rt, "selectors") {
			selectors = append(selectors, selectorOf(t, rapid.SampledFrom(expressions).Draw(rt, "selector")))
		}
		confined := pod.DeepCopy()
		if err := Confine(confined, selectors); err != nil {
			rt.Fatal(err)
		}
		for _, set := range []labels.Set{{}, {"rack": "1"}, {"rack": "2"}, {"zone": "a"},
			{"rack": "1", "zone": "b"}, {"rack": "2", "zone": "a"}} {
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: set}}
			want, err := nodeaffinity.GetRequiredNodeAffinity(pod).Match(node)
			got, err2 := nodeaffinity.GetRequiredNodeAffinity(confined).Match(node)
			for _, selector := range selectors {
				want = want && selector.Matches(set)
			}
			if got != want || err != nil || err2 != nil {
				rt.Errorf("node %v: %t, want %t: %v, %v", set, got, want, err, err2)
			}
		}
	})
}

// What the pod has comes first, then what its workload kept, then the segments with many free addresses.
func TestBest(t *testing.T) {
	held := func(pod string) floating.Choice {
		f := &networkv1alpha1.FloatingIP{}
		f.Spec.Holder = &networkv1alpha1.FloatingIPHolder{}
		if f.Spec.Holder.PodUID = "me"; pod != "me" {
			f.Spec.Holder.PodUID = ""
		}
		return floating.Choice{Had: f}
	}
	none := floating.Answer{Err: fmt.Errorf("no"), Free: 100}
	few, many := floating.Answer{Choices: []floating.Choice{{}}, Free: 1}, floating.Answer{Choices: []floating.Choice{{}}, Free: 9}
	kept, mine := floating.Answer{Choices: []floating.Choice{held("")}}, floating.Answer{Choices: []floating.Choice{held("me")}}
	for i, c := range []struct {
		answers []floating.Answer
		want    int
	}{
		{nil, -1}, {[]floating.Answer{none}, -1}, {[]floating.Answer{none, few}, 1}, {[]floating.Answer{few, many, few}, 1},
		{[]floating.Answer{few, few}, 0}, {[]floating.Answer{many, kept, many}, 1}, {[]floating.Answer{kept, many, mine}, 2},
	} {
		if got := Best("me", c.answers); got != c.want {
			t.Errorf("case %d: %d, want %d", i, got, c.want)
		}
	}
}

// Each reason comes once, with the number of its nodes, and without their names.
func TestExplain(t *testing.T) {
	on := func(node string) floating.Answer {
		return floating.Answer{Err: &floating.UnavailableError{Pool: "web", Node: node,
			Reason: "its free IPv4 addresses are carried by other nodes"}}
	}
	full := floating.Answer{Err: &floating.UnavailableError{Pool: "web", For: "the end of a pod",
		Reason: "all its IPv4 addresses are in use"}}
	const want = "0/5 nodes can carry an address of the pod: 1 IPPool web: all its IPv4 addresses are in use; " +
		"it waits for the end of a pod, 2 IPPool web: its free IPv4 addresses are carried by other nodes, " +
		"2 excluded by the pod's node selector, node affinity or tolerations"
	if got := Explain(0, nil); got != "there is no node" {
		t.Errorf("got %s", got)
	}
	if got := Explain(5, []floating.Answer{on("a"), full, on("b")}); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestUngateKeepsOtherGates(t *testing.T) {
	pod := podOf(t, "{schedulingGates: [{name: a}, {name: network.weft.dev/floating-ip}, {name: b}]}")
	if !IsGated(pod) {
		t.Error("the pod is not gated")
	}
	before := pod.Spec.SchedulingGates
	if Ungate(pod); IsGated(pod) || len(pod.Spec.SchedulingGates) != 2 || before[1].Name != networkv1alpha1.FloatingGate {
		t.Errorf("gates %v, they were %v", pod.Spec.SchedulingGates, before)
	}
}
