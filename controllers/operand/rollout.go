package operand

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/install/render"
	"github.com/weft-network/weft/pkg/install/rollout"
	"github.com/weft-network/weft/pkg/process/trigger"
)

// podChanged passes changes of pods that a rollout depends on.
func podChanged() predicate.Predicate {
	return trigger.Changed(func(before, now *corev1.Pod) bool {
		return !reflect.DeepEqual(before.Status, now.Status) ||
			before.DeletionTimestamp.IsZero() != now.DeletionTimestamp.IsZero() || before.Spec.NodeName != now.Spec.NodeName
	})
}

// answered passes changes of an agent's report about its node.
func answered() predicate.Predicate {
	ready := func(nn *networkv1alpha1.NodeNetwork) bool {
		return meta.IsStatusConditionTrue(nn.Status.Conditions, networkv1alpha1.ConditionReady)
	}
	return trigger.Changed(func(before, now *networkv1alpha1.NodeNetwork) bool {
		return ready(before) != ready(now) || before.Status.AgentVersion != now.Status.AgentVersion ||
			!equality.Semantic.DeepEqual(before.Status.Probe, now.Status.Probe)
	})
}

// rollOut brings the workloads and their pods one step nearer to the wanted version. again is the latest time to
// continue. It is zero if the rollout waits for nothing.
func (r *Reconciler) rollOut(ctx context.Context, cn *networkv1alpha1.ClusterNetwork, wanted render.Facts) (again time.Time, err error) {
	facts, err := r.observe(ctx, cn, wanted)
	if err != nil {
		return again, err
	}
	step := rollout.Plan(facts)
	failed := []error{r.reportRollout(ctx, cn, step.Status)}
	for _, name := range step.Apply {
		failed = append(failed, r.workload(ctx, cn, facts.Wanted[name]))
	}
	if step.StartPreflight {
		failed = append(failed, r.compare(ctx, facts.Wanted[render.Operator]))
	}
	if step.DeletePreflight {
		failed = append(failed, client.IgnoreNotFound(r.Client.Delete(ctx, &corev1.Pod{ObjectMeta: r.meta(render.Preflight)})))
	}
	for _, name := range step.Replace {
		failed = append(failed, r.replace(ctx, cn, name, wanted.Version))
	}
	for i := range facts.Pods {
		if slices.Contains(step.Restart, facts.Pods[i].Name) {
			failed = append(failed, r.restart(ctx, cn, &facts.Pods[i], facts.Wanted[render.Switches], wanted.Version))
		}
	}
	for i := range facts.Networks {
		if request, ok := step.Probes[facts.Networks[i].Name]; ok {
			failed = append(failed, r.request(ctx, &facts.Networks[i], request))
		}
	}
	return step.Recheck, errors.Join(failed...)
}

// observe reads the current state.
func (r *Reconciler) observe(ctx context.Context, cn *networkv1alpha1.ClusterNetwork, wanted render.Facts) (rollout.Facts, error) {
	facts := rollout.Facts{Now: r.Now(), Patience: r.Patience, Operand: wanted, Network: cn,
		Wanted: map[string]render.Workload{}, There: map[string]render.Workload{}}
	all, err := render.Workloads(wanted)
	if err != nil {
		return facts, err
	}
	if facts.Settings, err = render.SettingsDigest(wanted.Components); err != nil {
		return facts, err
	}
	for _, want := range all {
		facts.Wanted[want.GetName()] = want
		have, err := r.have(ctx, want)
		if err != nil {
			return facts, err
		}
		if have != nil {
			facts.There[want.GetName()] = have
		}
	}
	var pods corev1.PodList
	var nodes corev1.NodeList
	var networks networkv1alpha1.NodeNetworkList
	err = errors.Join(r.Client.List(ctx, &pods, client.InNamespace(r.Facts.Namespace)), r.Client.List(ctx, &nodes),
		r.Client.List(ctx, &networks))
	facts.Pods, facts.Nodes, facts.Networks = pods.Items, nodes.Items, networks.Items
	return facts, err
}

// have reads the existing workload, or returns nil.
func (r *Reconciler) have(ctx context.Context, want render.Workload) (render.Workload, error) {
	have, ok := reflect.New(reflect.TypeOf(want).Elem()).Interface().(render.Workload)
	if !ok {
		return nil, fmt.Errorf("%s is not a workload", want.GetName())
	}
	err := r.Client.Get(ctx, r.own(want.GetName()), have)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return have, err
}

// replace deletes a pod, so that another is created from the current template. An absent pod was replaced already.
func (r *Reconciler) replace(ctx context.Context, cn *networkv1alpha1.ClusterNetwork, name, version string) error {
	pod := &corev1.Pod{ObjectMeta: r.meta(name)}
	if err := r.Client.Get(ctx, r.own(name), pod); err != nil {
		return client.IgnoreNotFound(err)
	}
	uid := pod.UID
	if err := r.Client.Delete(ctx, pod, client.Preconditions{UID: &uid}); err != nil {
		if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
			return nil
		}
		return fmt.Errorf("pod %s: %w", name, err)
	}
	r.Events.Eventf(cn, nil, corev1.EventTypeNormal, "PodReplaced", "RollOut", "pod %s, on node %s, for version %s",
		name, pod.Spec.NodeName, version)
	return nil
}

// compare makes the wanted operator report what it would change.
func (r *Reconciler) compare(ctx context.Context, operator render.Workload) error {
	pod := render.PreflightPod(r.Facts.Namespace, operator)
	if err := r.Client.Create(ctx, pod, fieldOwner); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("pod %s: %w", pod.Name, err)
	}
	return nil
}

// restart gives a pod the images of a template.
func (r *Reconciler) restart(ctx context.Context, cn *networkv1alpha1.ClusterNetwork, pod *corev1.Pod,
	like render.Workload, version string) error {
	wanted := rollout.Restarted(pod, render.Template(like), r.Now())
	if err := r.Client.Patch(ctx, wanted, client.StrategicMergeFrom(pod), fieldOwner); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("pod %s: %w", pod.Name, err)
	}
	r.Events.Eventf(cn, nil, corev1.EventTypeNormal, "PodRestarted", "RollOut", "pod %s, on node %s, for version %s",
		pod.Name, pod.Spec.NodeName, version)
	return nil
}

// request writes a request for a node's agent if it differs.
func (r *Reconciler) request(ctx context.Context, nn *networkv1alpha1.NodeNetwork, question networkv1alpha1.ProbeRequest) error {
	if before, ok := networkv1alpha1.ReadProbeRequest(nn.Annotations); ok && before.ID == question.ID &&
		slices.Equal(before.Peers, question.Peers) {
		return nil
	}
	text, err := json.Marshal(question)
	if err != nil {
		return err
	}
	before := nn.DeepCopy()
	metav1.SetMetaDataAnnotation(&nn.ObjectMeta, networkv1alpha1.ProbeAnnotation, string(text))
	if err := r.Client.Patch(ctx, nn, client.MergeFrom(before), fieldOwner); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("NodeNetwork %s: %w", nn.Name, err)
	}
	return nil
}

// reportRollout writes the rollout's progress, and records an event for each change of state or stage.
func (r *Reconciler) reportRollout(ctx context.Context, cn *networkv1alpha1.ClusterNetwork, now networkv1alpha1.RolloutStatus) error {
	was := cn.Status.Rollout
	if was != nil && equality.Semantic.DeepEqual(*was, now) {
		return nil
	}
	before := cn.DeepCopy()
	cn.Status.Rollout = &now
	if err := r.Client.Status().Patch(ctx, cn, client.MergeFrom(before), fieldOwner); err != nil {
		return fmt.Errorf("status of ClusterNetwork %s: %w", cn.Name, err)
	}
	if was != nil && was.State == now.State && was.Stage == now.Stage || was == nil && now.State == networkv1alpha1.RolloutComplete {
		return nil
	}
	kind := corev1.EventTypeNormal
	if now.State == networkv1alpha1.RolloutBlocked || now.State == networkv1alpha1.RolloutStopped {
		kind = corev1.EventTypeWarning
	}
	r.Events.Eventf(cn, nil, kind, "Rollout"+string(now.State), "RollOut", "%s", now.Text())
	return nil
}
