package scheduler

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

// Without an extender, a gated pod goes to a node that carries an address of its pool. Without an address it stays
// gated, an event says why, and it goes on when an address is released.
func TestGatedPodGoesWhereAnAddressIsCarried(t *testing.T) {
	w := newWorld(t, "gate", rangeOf("198.51.100.10-198.51.100.11", "rack-2"))
	w.scheduler("gate", "")
	a, b, c := w.pod("a", "gate", gated), w.pod("b", "gate", gated), w.pod("c", "gate", gated)
	w.create(a, b)
	first := w.bound(a, "n2", "n3")
	if second := w.bound(b, "n2", "n3"); first == second {
		t.Fatalf("both pods have %s", first)
	}
	w.create(c)
	w.event(c, "FailedAddressAllocation", "0/3 nodes can carry an address of the pod: 3 IPPool gate: all its IPv4 addresses are in use")
	w.remove(a)
	if third := w.bound(c, "n2", "n3"); third != first {
		t.Errorf("pod c has %s, released was %s", third, first)
	}
	w.lacks(c, "")
	w.remove(b, c)
	w.await(w.nobodyHasAnything)
}

// The placement that a gated pod has already decides about the segment, and stays: node selector, terms of node
// affinity, tolerations, and other gates.
func TestPlacementOfAGatedPodStays(t *testing.T) {
	w := newWorld(t, "placed", rangeOf("198.51.100.32/28", "rack-2"), rangeOf("198.51.100.20-198.51.100.21", "rack-1"))
	w.scheduler("placed", "")
	selected := w.pod("selected", "placed", gated, func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"rack": "rack-1"} })
	term := func(name string) corev1.NodeSelectorTerm {
		return corev1.NodeSelectorTerm{MatchFields: []corev1.NodeSelectorRequirement{
			{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{name}}}}
	}
	affine := w.pod("affine", "placed", gated, func(p *corev1.Pod) {
		p.Spec.SchedulingGates = append(p.Spec.SchedulingGates, corev1.PodSchedulingGate{Name: "example.com/quota"})
		p.Spec.Affinity = requiring(term("n1"), term("n3"))
	})
	w.create(selected, affine)
	if address := w.bound(selected, "n1"); !strings.HasPrefix(address, "198.51.100.2") {
		t.Errorf("pod selected has %s", address)
	}
	w.await(func() error {
		w.do(api.Get(t.Context(), client.ObjectKeyFromObject(affine), affine))
		if gates := affine.Spec.SchedulingGates; len(gates) != 1 || gates[0].Name != "example.com/quota" {
			return fmt.Errorf("pod affine has the gates %v", gates)
		}
		return nil
	})
	if held := w.held(affine.UID); len(held) != 1 || affine.Annotations[networkv1alpha1.FloatingIPsAnnotation] != held[0] {
		t.Errorf("pod affine has %v and the annotations %v", held, affine.Annotations)
	}
	for _, term := range affine.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
		if len(term.MatchFields) != 1 || len(term.MatchExpressions) != 1 || !slices.Equal(term.MatchExpressions[0].Values, []string{"rack-2"}) {
			t.Errorf("a term of pod affine is %+v", term)
		}
	}
	affine.Spec.SchedulingGates = nil
	w.do(api.Update(t.Context(), affine))
	w.bound(affine, "n3")
}

// A gated pod that requests no address, or has the network of its node, only loses its gate. A wrong request keeps the
// gate until it is corrected.
func TestGatedPodsWithoutARequest(t *testing.T) {
	w := newWorld(t, "none", rangeOf("198.51.100.50", ""))
	w.scheduler("none", "")
	plain := w.pod("plain", "none", gated, func(p *corev1.Pod) { p.Annotations = nil })
	host := w.pod("host", "none", gated, func(p *corev1.Pod) { p.Spec.HostNetwork = true })
	wrong := w.pod("wrong", "none", gated, func(p *corev1.Pod) { p.Annotations[networkv1alpha1.IPCountAnnotation] = "many" })
	w.create(plain, host, wrong)
	for _, pod := range []*corev1.Pod{plain, host} {
		w.await(func() error {
			w.do(api.Get(t.Context(), client.ObjectKeyFromObject(pod), pod))
			if pod.Spec.NodeName == "" {
				return fmt.Errorf("pod %s is not bound, gates %v", pod.Name, pod.Spec.SchedulingGates)
			}
			return nil
		})
		if held := w.held(pod.UID); len(held) > 0 {
			t.Errorf("pod %s has %v", pod.Name, held)
		}
	}
	w.event(wrong, "FailedAddressAllocation", `"many" is not a number from 1 to 16`)
	w.do(api.Get(t.Context(), client.ObjectKeyFromObject(wrong), wrong))
	delete(wrong.Annotations, networkv1alpha1.IPCountAnnotation)
	w.do(api.Update(t.Context(), wrong))
	w.bound(wrong, "n1", "n2", "n3")
}

// A gated pod of a StatefulSet returns to the segment of its kept address. It waits while no node of that segment can
// have it.
func TestGatedStatefulSetsPodReturnsToItsAddress(t *testing.T) {
	w := newWorld(t, "gated-set", rangeOf("198.51.100.60", "rack-1"), rangeOf("198.51.100.64/28", "rack-2"))
	w.scheduler("gated-set", "")
	labels := map[string]string{"app": "db"}
	set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: "db"}, Spec: appsv1.StatefulSetSpec{
		Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}}}}
	w.do(api.Create(t.Context(), set))
	pod := func(rack string) *corev1.Pod {
		return w.pod("db-0", "gated-set", gated, func(p *corev1.Pod) {
			p.Annotations[networkv1alpha1.ReleasePolicyAnnotation] = "immutable"
			p.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(set, appsv1.SchemeGroupVersion.WithKind("StatefulSet"))}
			if rack != "" {
				p.Spec.NodeSelector = map[string]string{"rack": rack}
			}
		})
	}
	was := pod("rack-1")
	w.create(was)
	address := w.bound(was, "n1")
	w.remove(was)
	elsewhere := pod("rack-2")
	w.create(elsewhere)
	w.lacks(elsewhere, "2 IPPool gated-set: 198.51.100.60, which is kept for this pod, is carried by nodes with rack=rack-1",
		"1 excluded by the pod's node selector")
	w.remove(elsewhere)
	next := pod("")
	w.create(next)
	if got := w.bound(next, "n1"); got != address {
		t.Fatalf("the pod got %s, it had %s", got, address)
	}
}

// lacks waits until a pod's condition has all texts; an empty text stands for nothing that it lacks.
func (w *world) lacks(pod *corev1.Pod, texts ...string) {
	w.Helper()
	w.await(func() error {
		w.do(api.Get(w.Context(), client.ObjectKeyFromObject(pod), pod))
		for _, c := range pod.Status.Conditions {
			if c.Type != networkv1alpha1.PodFloatingIP || (c.Status == corev1.ConditionTrue) != (texts[0] == "") {
				continue
			}
			if !slices.ContainsFunc(texts, func(text string) bool { return !strings.Contains(c.Message, text) }) {
				return nil
			}
		}
		return fmt.Errorf("the conditions of pod %s have no %q: %+v", pod.Name, texts, pod.Status.Conditions)
	})
}

// Gated pods and pods of two schedulers with extenders share a pool: each has one address, of the segment of its node.
func TestGateAndExtendersAtATime(t *testing.T) {
	w := newWorld(t, "mixed", rangeOf("198.51.100.96-198.51.100.107", "rack-1"), rangeOf("198.51.100.112-198.51.100.123", "rack-2"))
	w.scheduler("mixed-a", w.extender("", nil).address)
	w.scheduler("mixed-b", w.extender("", nil).address)
	w.scheduler("mixed-gate", "")
	pods := make([]*corev1.Pod, 24) // as many as addresses
	for i := range pods {
		name := []string{"mixed-a", "mixed-gate", "mixed-b"}[i%3]
		pods[i] = w.pod(fmt.Sprint("p", i), name, func(p *corev1.Pod) {
			if name == "mixed-gate" {
				gated(p)
			}
		})
	}
	w.create(pods...)
	owner := map[string]string{}
	for _, pod := range pods {
		address := w.bound(pod, "n1", "n2", "n3")
		if by := owner[address]; by != "" {
			t.Errorf("pods %s and %s have %s", by, pod.Name, address)
		}
		owner[address] = pod.Name
		if isRack1 := len(address) == len("198.51.100.96") || address < "198.51.100.112"; isRack1 != (pod.Spec.NodeName == "n1") {
			t.Errorf("pod %s on %s has %s", pod.Name, pod.Spec.NodeName, address)
		}
	}
	w.remove(pods...)
	w.await(w.nobodyHasAnything)
}

// The sample policy adds the gate to pods with the annotation, and to no other pod.
func TestPolicyAddsTheGate(t *testing.T) {
	w := newWorld(t, "gating", rangeOf("198.51.100.130", "rack-2"))
	w.sample("floating-gate.yaml")
	without := func(p *corev1.Pod) { p.Spec.Containers[0].Resources = corev1.ResourceRequirements{} }
	gates := func(pod *corev1.Pod) (names []string) {
		for _, g := range pod.Spec.SchedulingGates {
			names = append(names, g.Name)
		}
		return names
	}
	w.await(func() error {
		probe := w.pod("probe", "gating", without)
		if err := api.Create(t.Context(), probe, client.DryRunAll); err != nil || len(gates(probe)) == 0 {
			return errors.Join(errors.New("the policy is not in force"), err)
		}
		return nil
	})
	other := corev1.PodSchedulingGate{Name: "example.com/quota"}
	for _, c := range []struct {
		pod  *corev1.Pod
		want []string
	}{
		{w.pod("plain", "gating", without, func(p *corev1.Pod) { p.Annotations = nil }), nil},
		{w.pod("resource", "gating"), nil},
		{w.pod("on-a-node", "gating", without, func(p *corev1.Pod) { p.Spec.NodeName = "n2" }), nil},
		{w.pod("has-it", "gating", gated), []string{networkv1alpha1.FloatingGate}},
		{w.pod("has-another", "gating", without, func(p *corev1.Pod) { p.Spec.SchedulingGates = []corev1.PodSchedulingGate{other} }),
			[]string{other.Name, networkv1alpha1.FloatingGate}},
	} {
		w.do(api.Create(t.Context(), c.pod, client.DryRunAll))
		if got := gates(c.pod); !slices.Equal(got, c.want) {
			t.Errorf("pod %s has the gates %v, want %v", c.pod.Name, got, c.want)
		}
	}
	w.scheduler("gating", "")
	a := w.pod("a", "gating", without)
	w.create(a)
	w.bound(a, "n2", "n3")
}

// The operator may remove its gate and confine a pod, and change nothing else of it.
func TestOperatorOnlyRemovesItsGate(t *testing.T) {
	w := newWorld(t, "rights", rangeOf("198.51.100.140", ""))
	const other = "example.com/quota"
	created := w.pod("a", "nobody", gated, func(p *corev1.Pod) {
		p.Annotations[networkv1alpha1.IPPoolAnnotation] = "absent" // so that it stays gated
		p.Spec.SchedulingGates = append(p.Spec.SchedulingGates, corev1.PodSchedulingGate{Name: other})
	})
	w.create(created)
	operator, err := client.New(as("weft-operator"), client.Options{Scheme: api.Scheme()})
	w.do(err)
	ungate := func(p *corev1.Pod) { p.Spec.SchedulingGates = p.Spec.SchedulingGates[1:] }
	for name, change := range map[string]func(*corev1.Pod){
		"the image": func(p *corev1.Pod) { ungate(p); p.Spec.Containers[0].Image = "other" },
		"the tolerations": func(p *corev1.Pod) {
			ungate(p)
			p.Spec.Tolerations = append(p.Spec.Tolerations, corev1.Toleration{Operator: "Exists"})
		},
		"the node selector":   func(p *corev1.Pod) { ungate(p); p.Spec.NodeSelector = map[string]string{"a": "b"} },
		"the deadline":        func(p *corev1.Pod) { ungate(p); p.Spec.ActiveDeadlineSeconds = new(int64(1)) },
		"the labels":          func(p *corev1.Pod) { ungate(p); p.Labels = map[string]string{"a": "b"} },
		"another annotation":  func(p *corev1.Pod) { ungate(p); p.Annotations["a"] = "b" },
		"another gate":        func(p *corev1.Pod) { p.Spec.SchedulingGates = p.Spec.SchedulingGates[:1] },
		"all gates":           func(p *corev1.Pod) { p.Spec.SchedulingGates = nil },
		"only the affinity":   func(p *corev1.Pod) { p.Spec.Affinity = onRack("rack-1") },
		"only its annotation": func(p *corev1.Pod) { p.Annotations[networkv1alpha1.FloatingIPsAnnotation] = "198.51.100.140" },
	} {
		changed := created.DeepCopy()
		change(changed)
		err := operator.Patch(t.Context(), changed, client.MergeFrom(created), client.DryRunAll)
		if !apierrors.IsForbidden(err) || !strings.Contains(fmt.Sprint(err), "the Weft operator changes nothing of a pod but") {
			t.Errorf("the operator changes %s: %v", name, err)
		}
	}
	changed := created.DeepCopy()
	ungate(changed)
	changed.Spec.Affinity = onRack("rack-1")
	changed.Annotations[networkv1alpha1.FloatingIPsAnnotation] = "198.51.100.140"
	w.do(operator.Patch(t.Context(), changed, client.MergeFrom(created), client.DryRunAll))
}

func onRack(rack string) *corev1.Affinity {
	return requiring(corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{
		{Key: "rack", Operator: corev1.NodeSelectorOpIn, Values: []string{rack}}}})
}

func requiring(terms ...corev1.NodeSelectorTerm) *corev1.Affinity {
	return &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: terms}}}
}
