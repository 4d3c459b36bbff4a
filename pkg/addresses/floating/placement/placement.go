// Package placement confines a pod with the scheduling gate v1alpha1.FloatingGate to the nodes that carry its addresses,
// for clusters whose kube-scheduler has no extender. It is pure: it reads no cache and writes nothing.
package placement

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/types"
	schedulingv1 "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/addresses/floating"
)

// IsGated reports whether kube-scheduler does not consider a pod until Ungate has removed the gate.
func IsGated(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Spec.SchedulingGates, isOurs)
}

func isOurs(g corev1.PodSchedulingGate) bool { return g.Name == networkv1alpha1.FloatingGate }

// Ungate removes the gate from a pod. It keeps other gates.
func Ungate(pod *corev1.Pod) {
	pod.Spec.SchedulingGates = slices.DeleteFunc(slices.Clone(pod.Spec.SchedulingGates), isOurs)
}

// Nodes returns the nodes that a pod can go to by its node selector, its required node affinity and its tolerations.
// kube-scheduler decides about everything else, such as requested resources and volumes.
func Nodes(pod *corev1.Pod, all []corev1.Node) (usable []floating.Node) {
	affinity := nodeaffinity.GetRequiredNodeAffinity(pod)
	for i := range all {
		matches, err := affinity.Match(&all[i]) // after an error in one term, other terms may match
		if err == nil && matches && tolerates(pod, &all[i]) {
			usable = append(usable, floating.Node{Name: all[i].Name, Labels: all[i].Labels})
		}
	}
	return usable
}

// tolerates reports whether a pod tolerates the taints of a node that keep new pods away, and whether it is cordoned.
func tolerates(pod *corev1.Pod, node *corev1.Node) bool {
	taints := slices.Clone(node.Spec.Taints)
	if node.Spec.Unschedulable {
		taints = append(taints, corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule})
	}
	repels := func(t *corev1.Taint) bool {
		return t.Effect == corev1.TaintEffectNoSchedule || t.Effect == corev1.TaintEffectNoExecute
	}
	_, repelled := schedulingv1.FindMatchingUntoleratedTaint(klog.Background(), taints, pod.Spec.Tolerations, repels, true)
	return !repelled
}

// Best returns the index of the answer whose node suits a pod best, or -1 if no node carries addresses for the pod. It
// prefers nodes that carry the pod's addresses, then nodes that carry addresses that the workload kept, then nodes with
// many free addresses.
func Best(pod types.UID, answers []floating.Answer) int {
	best := -1
	for i := range answers {
		if answers[i].Err == nil && (best < 0 || compare(pod, &answers[i], &answers[best]) > 0) {
			best = i
		}
	}
	return best
}

func compare(pod types.UID, a, b *floating.Answer) int {
	held := func(c floating.Choice) bool { return c.IsHeld(pod) }
	return cmp.Or(cmp.Compare(count(a.Choices, held), count(b.Choices, held)),
		cmp.Compare(a.Kept(), b.Kept()), cmp.Compare(a.Free, b.Free))
}

func count(choices []floating.Choice, has func(floating.Choice) bool) (n int) {
	for _, c := range choices {
		if has(c) {
			n++
		}
	}
	return n
}

// Explain says why no node carries addresses for a pod. all is the number of nodes, and answers has one for each node
// that the pod can go to. Each reason comes with the number of its nodes.
func Explain(all int, answers []floating.Answer) string {
	nodes := map[string]int{} // reason -> number of nodes
	for _, a := range answers {
		var unavailable *floating.UnavailableError
		if errors.As(a.Err, &unavailable) {
			reason := *unavailable
			reason.Node = ""
			nodes[reason.Error()]++
		}
	}
	if other := all - len(answers); other > 0 {
		nodes["excluded by the pod's node selector, node affinity or tolerations"] = other
	}
	var reasons []string
	for reason, n := range nodes {
		reasons = append(reasons, fmt.Sprintf("%d %s", n, reason))
	}
	slices.Sort(reasons)
	if len(reasons) == 0 {
		return "there is no node"
	}
	return fmt.Sprintf("0/%d nodes can carry an address of the pod: %s", all, strings.Join(reasons, ", "))
}

// Confine adds all selectors to a pod's required node affinity. It replaces the fields that it changes, so that a shallow
// copy of the pod's spec stays unchanged. The API server accepts the change of a pod with a gate.
func Confine(pod *corev1.Pod, selectors []labels.Selector) error {
	requirements, err := requirementsOf(selectors)
	if err != nil || len(requirements) == 0 {
		return err
	}
	affinity := &corev1.Affinity{}
	if pod.Spec.Affinity != nil {
		affinity = pod.Spec.Affinity.DeepCopy()
	}
	if affinity.NodeAffinity == nil {
		affinity.NodeAffinity = &corev1.NodeAffinity{}
	}
	required := affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	if required == nil {
		required = &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: requirements}}}
	} else {
		for i := range required.NodeSelectorTerms {
			addTo(&required.NodeSelectorTerms[i], requirements)
		}
	}
	affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution = required
	pod.Spec.Affinity = affinity
	return nil
}

// addTo adds requirements to a term. A term without any selects no node, and stays so.
func addTo(term *corev1.NodeSelectorTerm, requirements []corev1.NodeSelectorRequirement) {
	if len(term.MatchExpressions) == 0 && len(term.MatchFields) == 0 {
		return
	}
	term.MatchExpressions = append(slices.Clip(term.MatchExpressions), requirements...)
}

// operators has the operator of node affinity for each operator that a label selector of the API can have.
var operators = map[selection.Operator]corev1.NodeSelectorOperator{
	selection.In: corev1.NodeSelectorOpIn, selection.Equals: corev1.NodeSelectorOpIn,
	selection.DoubleEquals: corev1.NodeSelectorOpIn,
	selection.NotIn:        corev1.NodeSelectorOpNotIn, selection.NotEquals: corev1.NodeSelectorOpNotIn,
	selection.Exists: corev1.NodeSelectorOpExists, selection.DoesNotExist: corev1.NodeSelectorOpDoesNotExist,
}

// requirementsOf returns the requirements of selectors, each once.
func requirementsOf(selectors []labels.Selector) (all []corev1.NodeSelectorRequirement, err error) {
	seen := map[string]bool{}
	for _, selector := range selectors {
		requirements, selectable := selector.Requirements()
		if !selectable {
			return nil, fmt.Errorf("selector %q selects no node", selector)
		}
		for _, r := range requirements {
			operator, known := operators[r.Operator()]
			if !known {
				return nil, fmt.Errorf("selector %q: node affinity has no operator for %s", selector, r.Operator())
			}
			if !seen[r.String()] {
				seen[r.String()] = true
				values := r.ValuesUnsorted()
				slices.Sort(values)
				all = append(all, corev1.NodeSelectorRequirement{Key: r.Key(), Operator: operator, Values: values})
			}
		}
	}
	return all, nil
}
