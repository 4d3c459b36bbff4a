package clusternetwork

import (
	"cmp"
	"context"
	"errors"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/controllers/kind"
	"github.com/weft-network/weft/pkg/health"
	"github.com/weft-network/weft/pkg/podcondition"
)

// byProblem indexes, as "true", the Pods and Services with a condition of Weft that is not good.
const (
	byProblem    = "problem"
	problemValue = "true"
)

// objectOf reads an object with conditions of Weft. A pod that has ended waits for nothing.
func objectOf(o client.Object) (health.Object, bool) {
	switch o := o.(type) {
	case *corev1.Pod:
		if o.Status.Phase == corev1.PodSucceeded || o.Status.Phase == corev1.PodFailed {
			return health.Object{}, false
		}
		return health.Object{Kind: "Pod", Namespace: o.Namespace, Name: o.Name, Conditions: conditionsOf(o)}, o.DeletionTimestamp == nil
	case *corev1.Service:
		return health.Object{Kind: "Service", Namespace: o.Namespace, Name: o.Name, Conditions: o.Status.Conditions},
			o.DeletionTimestamp == nil
	}
	return health.ObjectOf(o)
}

// conditionsOf returns a pod's conditions. FloatingIP stays as it was when the pod is scheduled. What the extender answers
// kube-scheduler is only in the condition PodScheduled, and counts as FloatingIP.
func conditionsOf(pod *corev1.Pod) (all []metav1.Condition) {
	refused := podcondition.RefusedByExtender(pod)
	for _, c := range pod.Status.Conditions {
		read := metav1.Condition{Type: string(c.Type), Status: metav1.ConditionStatus(c.Status), Reason: c.Reason,
			Message: c.Message, LastTransitionTime: c.LastTransitionTime}
		switch {
		case c.Type == corev1.PodScheduled && refused:
			read.Type, read.Reason = networkv1alpha1.PodFloatingIP, networkv1alpha1.ReasonAddressUnavailable
		case c.Type == networkv1alpha1.PodFloatingIP && (refused || pod.Spec.NodeName != ""):
			continue
		}
		all = append(all, read)
	}
	return all
}

// allProblems returns the problems and the requests of an object.
func allProblems(o client.Object) []networkv1alpha1.Problem {
	read, known := objectOf(o)
	if !known {
		return nil
	}
	problems, requests := read.Problems()
	return append(problems, requests...)
}

// indexProblem is the function of the index byProblem.
func indexProblem(o client.Object) []string {
	if len(allProblems(o)) == 0 {
		return nil
	}
	return []string{problemValue}
}

// problemsChanged passes events that change the problems or the requests of an object.
func problemsChanged() predicate.Funcs {
	return predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool { return !e.IsInInitialList && len(allProblems(e.Object)) > 0 },
		UpdateFunc: func(e event.UpdateEvent) bool {
			return !slices.Equal(allProblems(e.ObjectOld), allProblems(e.ObjectNew))
		},
		DeleteFunc: func(e event.DeleteEvent) bool { return len(allProblems(e.Object)) > 0 },
	}
}

// objects reads the objects with conditions of Weft, sorted by kind and name. Of Pods and Services it reads those with a problem.
func (r *Reconciler) objects(ctx context.Context) (all []health.Object, err error) {
	for _, k := range health.Kinds() {
		list, ok := k.List.(client.ObjectList)
		if !ok {
			continue
		}
		if err := r.Client.List(ctx, list); err != nil {
			return nil, err
		}
		all = append(all, health.ObjectsOf(list)...)
	}
	policies, err := r.Policies(ctx)
	if err != nil && !errors.Is(err, kind.ErrNotInSync) { // their reconcilers enqueue the ClusterNetwork
		return nil, err
	}
	for _, policy := range policies {
		if read, known := health.ObjectOf(policy); known {
			all = append(all, read)
		}
	}
	for _, list := range []client.ObjectList{&corev1.PodList{}, &corev1.ServiceList{}} {
		if err := r.Client.List(ctx, list, client.MatchingFields{byProblem: problemValue}); err != nil {
			return nil, err
		}
		_ = meta.EachListItem(list, func(item runtime.Object) error { // the function returns no error
			if object, ok := item.(client.Object); ok {
				if read, known := objectOf(object); known {
					all = append(all, read)
				}
			}
			return nil
		})
	}
	slices.SortFunc(all, func(a, b health.Object) int { return cmp.Compare(a.String(), b.String()) })
	return all, nil
}

// objectProblems lists the objects of administrators with a condition that is not good.
func objectProblems(f statusInput) (found []networkv1alpha1.Problem) {
	for _, o := range f.objects {
		problems, _ := o.Problems()
		found = append(found, problems...)
	}
	return found
}

// refusals lists the objects with a condition that is not good and that the owner of a namespace can cause, or nil. They
// do not make the network unhealthy, because the owner must not be able to block an upgrade. Many objects of one reason hide
// no other reason.
func refusals(objects []health.Object) *networkv1alpha1.Refusals {
	type reason struct{ kind, reason string }
	var first, others []networkv1alpha1.Refusal
	counts := map[reason]int32{}
	for _, o := range objects {
		_, requests := o.Problems()
		if len(requests) == 0 {
			continue
		}
		refusal, of := health.Refusal(requests), reason{o.Kind, requests[0].Reason}
		if counts[of]++; counts[of] == 1 {
			first = append(first, refusal)
		} else {
			others = append(others, refusal)
		}
	}
	if len(first) == 0 {
		return nil
	}
	var reasons []networkv1alpha1.RefusedReason
	for of, total := range counts {
		reasons = append(reasons, networkv1alpha1.RefusedReason{Kind: of.kind, Reason: of.reason, Total: total})
	}
	slices.SortFunc(reasons, func(a, b networkv1alpha1.RefusedReason) int {
		return cmp.Or(cmp.Compare(b.Total, a.Total), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Reason, b.Reason))
	})
	all := slices.Concat(first, others)
	return &networkv1alpha1.Refusals{Total: int32(len(all)), Reasons: reasons[:min(len(reasons), networkv1alpha1.MaxRefusals)],
		First: all[:min(len(all), networkv1alpha1.MaxRefusals)]}
}
