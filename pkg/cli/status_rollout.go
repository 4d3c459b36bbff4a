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

// workload is a Deployment, DaemonSet or StatefulSet of Weft.
type workload struct {
	kind, name           string
	generation, observed int64
	// wanted is the number of pods of the spec, and updated how many have the present template. former have another one.
	wanted, updated, former, available int32
	// late means that Kubernetes considers the rollout as failed.
	late     bool
	selector *metav1.LabelSelector
	template corev1.PodSpec
	// trouble is why a pod of an incomplete workload does not run.
	trouble culprit
}

func (w *workload) object() string { return w.kind + "/" + w.name }

func ofDeployment(d *appsv1.Deployment) workload {
	s := d.Status
	late := slices.ContainsFunc(s.Conditions, func(c appsv1.DeploymentCondition) bool {
		return c.Type == appsv1.DeploymentProgressing && c.Status == corev1.ConditionFalse
	})
	return workload{kind: "Deployment", name: d.Name, generation: d.Generation, observed: s.ObservedGeneration,
		wanted: replicas(d.Spec.Replicas), updated: s.UpdatedReplicas, former: s.Replicas - s.UpdatedReplicas,
		available: s.AvailableReplicas, late: late, selector: d.Spec.Selector, template: d.Spec.Template.Spec}
}

// replicas returns the number of pods of a workload, whose default is 1.
func replicas(n *int32) int32 {
	if n == nil {
		return 1
	}
	return *n
}

// ofDaemonSet reads a DaemonSet. With OnDelete, weft-operands decides which pods are replaced, and reports it as a rollout.
func ofDaemonSet(d *appsv1.DaemonSet) workload {
	s := d.Status
	w := workload{kind: "DaemonSet", name: d.Name, generation: d.Generation, observed: s.ObservedGeneration,
		wanted: s.DesiredNumberScheduled, updated: s.UpdatedNumberScheduled, available: s.NumberAvailable,
		selector: d.Spec.Selector, template: d.Spec.Template.Spec}
	if d.Spec.UpdateStrategy.Type == appsv1.OnDeleteDaemonSetStrategyType {
		w.updated = w.wanted
	}
	return w
}

// ofStatefulSet reads a StatefulSet, as ofDaemonSet does.
func ofStatefulSet(d *appsv1.StatefulSet) workload {
	s := d.Status
	w := workload{kind: "StatefulSet", name: d.Name, generation: d.Generation, observed: s.ObservedGeneration,
		wanted: replicas(d.Spec.Replicas), updated: s.UpdatedReplicas, available: s.AvailableReplicas,
		selector: d.Spec.Selector, template: d.Spec.Template.Spec}
	if d.Spec.UpdateStrategy.Type == appsv1.OnDeleteStatefulSetStrategyType {
		w.updated = w.wanted
	}
	return w
}

// lacks returns what a workload lacks of its spec, or "".
func (w *workload) lacks() string {
	switch {
	case w.observed < w.generation:
		return "Kubernetes has not seen its present spec yet"
	case w.wanted == 0 && w.object() == operandsObject:
		return "it is scaled to 0, so that nobody keeps the other workloads"
	case w.updated < w.wanted:
		return fmt.Sprintf("%d of %d pods have the present template", w.updated, w.wanted)
	case w.former > 0:
		return fmt.Sprintf("%d pods of a former template still run", w.former)
	case w.available < w.wanted:
		return fmt.Sprintf("%d of %d pods are available", w.available, w.wanted)
	}
	return ""
}

// The objects of the workloads that the others depend on.
const (
	operandsObject = "Deployment/weft-" + componentOperands
	operatorObject = "Deployment/weft-" + componentOperator
)

// readSets reads the workloads, and for an incomplete one why its pods do not run.
func (w *workloads) readSets(ctx context.Context, api client.Client) error {
	var daemons appsv1.DaemonSetList
	var stateful appsv1.StatefulSetList
	for _, list := range []client.ObjectList{&daemons, &stateful} {
		if err := w.note(ctx, api.List(ctx, list, client.InNamespace(w.namespace))); err != nil {
			return err
		}
	}
	for i := range w.deployments {
		w.sets = append(w.sets, ofDeployment(&w.deployments[i]))
	}
	for i := range daemons.Items {
		w.sets = append(w.sets, ofDaemonSet(&daemons.Items[i]))
	}
	for i := range stateful.Items {
		w.sets = append(w.sets, ofStatefulSet(&stateful.Items[i]))
	}
	w.sets = slices.DeleteFunc(w.sets, func(s workload) bool { return !strings.HasPrefix(s.name, "weft-") })
	for i := range w.sets {
		if set := &w.sets[i]; !w.podsUnseen && set.lacks() != "" {
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
		lack := cmp.Or(set.lacks(), w.outdated(set, present))
		if lack == "" {
			continue
		}
		state, reason := networkv1alpha1.StateProgressing, health.ReasonRolloutIncomplete
		if set.late || set.trouble.message != "" || set.wanted == 0 {
			state, reason = networkv1alpha1.StateDegraded, health.ReasonRolloutStopped
		}
		p := health.New(networkv1alpha1.AreaControlPlane, state, reason, set.object(),
			set.name+": "+lack+prefixed("; ", set.trouble.message))
		p.NextStep = cmp.Or(set.trouble.nextStep, strings.ReplaceAll(p.NextStep, "-n weft-system", "-n "+w.namespace))
		found = append(found, p)
	}
	return found
}

// outdated reports that weft-operands runs with another image than the operator's, which it replaces last, before it reports a
// rollout.
func (w *workloads) outdated(set *workload, present *networkv1alpha1.RolloutStatus) string {
	incomplete := func(s workload) bool { return s.object() == operandsObject && s.lacks() != "" }
	if set.object() != operatorObject || present != nil && present.State != networkv1alpha1.RolloutComplete ||
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
