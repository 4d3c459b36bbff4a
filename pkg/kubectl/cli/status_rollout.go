package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/health"
)

// workload is a workload of Weft with its pods.
type workload struct {
	health.Workload
	selector *metav1.LabelSelector
	template corev1.PodSpec
	// trouble is why a pod of an incomplete workload does not run.
	trouble culprit
}

func workloadOf(o any) (w workload, known bool) {
	w.Workload, known = health.WorkloadOf(o)
	switch o := o.(type) {
	case *appsv1.Deployment:
		w.selector, w.template = o.Spec.Selector, o.Spec.Template.Spec
	case *appsv1.DaemonSet:
		w.selector, w.template = o.Spec.Selector, o.Spec.Template.Spec
	case *appsv1.StatefulSet:
		w.selector, w.template = o.Spec.Selector, o.Spec.Template.Spec
	}
	return w, known
}

const operatorObject = "Deployment/weft-" + componentOperator

// readSets reads the workloads, and for an incomplete one why its pods do not run.
func (w *workloads) readSets(ctx context.Context, api client.Client) error {
	var daemons appsv1.DaemonSetList
	var stateful appsv1.StatefulSetList
	for _, list := range []client.ObjectList{&daemons, &stateful} {
		if err := w.note(ctx, api.List(ctx, list, client.InNamespace(w.namespace))); err != nil {
			return err
		}
	}
	add := func(o any) {
		if set, known := workloadOf(o); known {
			w.sets = append(w.sets, set)
		}
	}
	for i := range w.deployments {
		add(&w.deployments[i])
	}
	for i := range daemons.Items {
		add(&daemons.Items[i])
	}
	for i := range stateful.Items {
		add(&stateful.Items[i])
	}
	for i := range w.sets {
		if set := &w.sets[i]; !w.podsUnseen && set.Lacks() != "" {
			if err := w.readTrouble(ctx, api, set); err != nil {
				return err
			}
		}
	}
	return nil
}

// someOfSet is the number of pods of a workload that are searched for a problem.
const someOfSet = 500

func (w *workloads) readTrouble(ctx context.Context, api client.Client, set *workload) error {
	selector, err := metav1.LabelSelectorAsSelector(set.selector)
	if err != nil {
		return nil // the API server admits no such workload
	}
	var pods corev1.PodList
	if err := api.List(ctx, &pods, client.InNamespace(w.namespace), client.MatchingLabelsSelector{Selector: selector},
		client.Limit(someOfSet)); err != nil {
		return err
	}
	set.trouble = w.inTrouble(pods.Items)
	return nil
}

// note returns an error that is not a missing right. It remembers a missing right.
func (w *workloads) note(ctx context.Context, err error) error {
	if apierrors.IsForbidden(err) {
		w.unread = append(w.unread, explain(ctx, err).Error())
		return nil
	}
	return err
}

// rollouts lists the workloads that do not run as their specs say. It does not depend on the operator, which may be one of them.
func (w *workloads) rollouts(present *networkv1alpha1.RolloutStatus) (found []networkv1alpha1.Problem) {
	for i := range w.sets {
		set := &w.sets[i]
		lack := cmp.Or(set.Lacks(), w.outdated(set, present))
		if lack == "" {
			continue
		}
		state, reason := networkv1alpha1.StateProgressing, health.ReasonRolloutIncomplete
		if set.Late || set.trouble.message != "" || set.Wanted == 0 {
			state, reason = networkv1alpha1.StateDegraded, health.ReasonRolloutStopped
		}
		p := health.New(networkv1alpha1.AreaControlPlane, state, reason, set.Object(),
			set.Name+": "+lack+prefixed("; ", set.trouble.message))
		p.NextStep = cmp.Or(set.trouble.nextStep, strings.ReplaceAll(p.NextStep, "-n weft-system", "-n "+w.namespace))
		found = append(found, p)
	}
	isOperands := func(s workload) bool { return s.Object() == health.OperandsWorkload }
	if slices.ContainsFunc(w.sets, func(s workload) bool { return s.Kept }) && !slices.ContainsFunc(w.sets, isOperands) {
		p := health.New(networkv1alpha1.AreaControlPlane, networkv1alpha1.StateDegraded, health.ReasonRolloutStopped,
			health.OperandsWorkload, health.OperandsName+": it does not exist, so that nobody keeps the other workloads")
		p.NextStep = "apply the manifests of this version again: docs/user/install.md"
		found = append(found, p)
	}
	return found
}

// outdated reports that weft-operands runs with another image than the operator's, which it replaces last, before it reports a
// rollout.
func (w *workloads) outdated(set *workload, present *networkv1alpha1.RolloutStatus) string {
	incomplete := func(s workload) bool { return s.Object() == health.OperandsWorkload && s.Lacks() != "" }
	if set.Object() != operatorObject || present != nil && present.State != networkv1alpha1.RolloutComplete ||
		slices.ContainsFunc(w.sets, incomplete) {
		return ""
	}
	for _, pod := range w.ofComponent(componentOperands) {
		if image := imageOf(pod.Spec); pod.DeletionTimestamp == nil && image != imageOf(set.template) {
			return fmt.Sprintf("it has the image %s, and weft-operands the image %s", imageOf(set.template), image)
		}
	}
	return ""
}

func imageOf(spec corev1.PodSpec) string {
	if len(spec.Containers) == 0 {
		return ""
	}
	return spec.Containers[0].Image
}
