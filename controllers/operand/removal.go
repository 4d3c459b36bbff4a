package operand

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/health"
	"github.com/weft-network/weft/pkg/install/render"
)

const (
	// podsAgain is the interval at which the pods that hold a confirmed removal are listed, because this process does
	// not watch all pods.
	podsAgain = 5 * time.Second
	// unconfirmedAgain is the interval at which the pods are listed for which a removal would wait once it is
	// confirmed.
	unconfirmedAgain = time.Minute
	// podsCounted bounds the number of pods in one list.
	podsCounted = 500
)

// remove removes the network when its deletion is confirmed and no pod uses it, and then the finalizer. It keeps the
// operands until the removal begins. It computes the step from the API server's state at each call.
func (r *Reconciler) remove(ctx context.Context, cached *networkv1alpha1.ClusterNetwork) (reconcile.Result, error) {
	cn := &networkv1alpha1.ClusterNetwork{} // read past the cache, because the deletion may have been cancelled
	err := r.Live.Get(ctx, client.ObjectKeyFromObject(cached), cn)
	if err != nil || cn.UID != cached.UID {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if !controllerutil.ContainsFinalizer(cn, render.Finalizer) {
		return reconcile.Result{}, r.writeRemoving(ctx, cn, health.FinalizersRemain(cn.Finalizers))
	}
	var users render.Users
	if !render.RemovalBegun(cn) {
		if users, err = r.users(ctx); err != nil {
			return reconcile.Result{}, err
		}
	}
	step := render.NextRemovalStep(cn, users)
	if step.Remove {
		return reconcile.Result{}, r.removeAll(ctx, cn, step)
	}
	r.recordHeld(cn, step)
	if err := r.writeRemoving(ctx, cn, health.Removing(step.Reason, step.Message)); err != nil || !step.Keep {
		return reconcile.Result{}, err
	}
	result, err := r.keep(ctx, cn)
	again := unconfirmedAgain
	if step.Reason == networkv1alpha1.ReasonPodsRemain {
		again = podsAgain
	}
	if result.RequeueAfter == 0 || result.RequeueAfter > again {
		result.RequeueAfter = again
	}
	return result, err
}

// removeAll removes the network in stages, each of which waits for the end of the previous one, and then the
// finalizer.
func (r *Reconciler) removeAll(ctx context.Context, cn *networkv1alpha1.ClusterNetwork, step render.RemovalStep) error {
	if !render.RemovalBegun(cn) {
		// This write fails if the ClusterNetwork has changed since it was read, so that a cancelled removal does not
		// begin.
		if err := r.writeRemoving(ctx, cn, health.Removing(step.Reason, step.Message)); err != nil {
			return err
		}
	}
	zoneOperators, zoneDatabases, err := r.zoneWorkloads(ctx, cn)
	if err != nil {
		return err
	}
	remove := func(names []string) func(context.Context, *networkv1alpha1.ClusterNetwork) (bool, error) {
		return func(ctx context.Context, _ *networkv1alpha1.ClusterNetwork) (bool, error) { return r.gone(ctx, names) }
	}
	for _, stage := range []struct {
		message string
		do      func(context.Context, *networkv1alpha1.ClusterNetwork) (done bool, err error)
	}{
		{step.Message, remove(slices.Concat(render.RemovedFirst, zoneOperators))},
		{"DaemonSet " + render.Uninstall + " removes the network from the nodes", r.nodesCleared},
		{"Open vSwitch and OVN's databases are removed", remove(slices.Concat(render.RemovedLast, zoneDatabases))},
	} {
		if done, err := stage.do(ctx, cn); err != nil || !done {
			return errors.Join(err, r.writeRemoving(ctx, cn, health.Removing(step.Reason, stage.message)))
		}
	}
	return r.removeRest(ctx, cn)
}

// removeRest removes the objects that no node needs, and then the finalizer.
func (r *Reconciler) removeRest(ctx context.Context, cn *networkv1alpha1.ClusterNetwork) error {
	if err := r.Client.Delete(ctx, &corev1.Pod{ObjectMeta: r.meta(render.Preflight)}); client.IgnoreNotFound(err) != nil {
		return err
	}
	for _, name := range render.SecretNames() {
		if err := r.Client.Delete(ctx, &corev1.Secret{ObjectMeta: r.meta(name)}); client.IgnoreNotFound(err) != nil {
			return err
		}
	}
	r.Events.Eventf(cn, nil, corev1.EventTypeNormal, "NetworkRemoved", "Remove", "no node has any part of the network left")
	return r.finalize(ctx, cn, false)
}

// writeRemoving writes the condition Removing if it differs. Once the removal has begun, no operator runs, so that it
// also writes the conditions that sum up the network.
func (r *Reconciler) writeRemoving(ctx context.Context, cn *networkv1alpha1.ClusterNetwork, removing metav1.Condition) error {
	conditions := []metav1.Condition{removing}
	if removing.Reason == networkv1alpha1.ReasonRemovingOperands {
		conditions = append(conditions, health.Removed(removing)...)
	}
	before, changed := cn.DeepCopy(), false
	for _, c := range conditions {
		c.ObservedGeneration = cn.Generation
		changed = meta.SetStatusCondition(&cn.Status.Conditions, c) || changed
	}
	if !changed {
		return nil
	}
	if err := r.Client.Status().Patch(ctx, cn, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}),
		fieldOwner); err != nil {
		return fmt.Errorf("condition %s of ClusterNetwork %s: %w", removing.Type, cn.Name, err)
	}
	return nil
}

// users lists the pods that have an interface of the network, at most podsCounted.
func (r *Reconciler) users(ctx context.Context) (users render.Users, err error) {
	selector := fields.AndSelectors(fields.OneTermEqualSelector("spec.hostNetwork", "false"),
		fields.OneTermNotEqualSelector("spec.nodeName", ""),
		fields.OneTermNotEqualSelector("status.phase", string(corev1.PodSucceeded)),
		fields.OneTermNotEqualSelector("status.phase", string(corev1.PodFailed)))
	var pods metav1.PartialObjectMetadataList
	pods.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("PodList"))
	err = r.Live.List(ctx, &pods, &client.ListOptions{FieldSelector: selector, Limit: podsCounted})
	for i := range pods.Items {
		users.Names = append(users.Names, pods.Items[i].Namespace+"/"+pods.Items[i].Name)
	}
	users.More = pods.Continue != ""
	return users, err
}

// recordHeld records an event with the reason why nothing is removed. Events of one reason form one series.
func (r *Reconciler) recordHeld(cn *networkv1alpha1.ClusterNetwork, step render.RemovalStep) {
	r.Events.Eventf(regarding(cn), nil, corev1.EventTypeWarning, step.Reason, "Remove", "%s", health.Cut(step.Message))
}

// regarding returns the object of a series of events. It is the same for each version of the ClusterNetwork.
func regarding(cn *networkv1alpha1.ClusterNetwork) *networkv1alpha1.ClusterNetwork {
	return &networkv1alpha1.ClusterNetwork{ObjectMeta: metav1.ObjectMeta{Name: cn.Name, UID: cn.UID}}
}

// gone deletes workloads, and reports whether they and their pods no longer exist.
func (r *Reconciler) gone(ctx context.Context, names []string) (bool, error) {
	left := 0
	var failed []error
	for _, name := range names {
		for _, object := range []client.Object{&appsv1.Deployment{}, &appsv1.StatefulSet{}, &appsv1.DaemonSet{}} {
			err := r.Client.Get(ctx, r.own(name), object)
			if apierrors.IsNotFound(err) {
				continue
			}
			left++
			if err == nil && object.GetDeletionTimestamp().IsZero() {
				err = client.IgnoreNotFound(r.Client.Delete(ctx, object, client.PropagationPolicy(metav1.DeletePropagationForeground)))
			}
			failed = append(failed, err)
		}
	}
	return left == 0, errors.Join(failed...)
}

// nodesCleared reports whether no node has any part of the network left. It returns true once the removal of Open
// vSwitch, which it needs, has begun.
func (r *Reconciler) nodesCleared(ctx context.Context, cn *networkv1alpha1.ClusterNetwork) (bool, error) {
	switches := &appsv1.DaemonSet{}
	err := r.Client.Get(ctx, r.own(render.Switches), switches)
	if apierrors.IsNotFound(err) || err == nil && !switches.DeletionTimestamp.IsZero() {
		return true, nil
	} else if err != nil {
		return false, err
	}
	facts := r.Facts
	facts.Components = cn.Spec.Components
	want, err := render.Removal(facts)
	if err != nil {
		return false, err
	}
	if err := r.workload(ctx, cn, want); err != nil {
		return false, err
	}
	have := &appsv1.DaemonSet{}
	if err := r.Client.Get(ctx, r.own(render.Uninstall), have); err != nil {
		return false, client.IgnoreNotFound(err) // the cache will follow
	}
	s := have.Status
	return s.ObservedGeneration == have.Generation && s.NumberReady == s.DesiredNumberScheduled &&
		s.UpdatedNumberScheduled == s.DesiredNumberScheduled, nil
}

func (r *Reconciler) meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: r.Facts.Namespace, Name: name}
}

// finalize adds or removes the finalizer of the ClusterNetwork.
func (r *Reconciler) finalize(ctx context.Context, cn *networkv1alpha1.ClusterNetwork, wanted bool) error {
	if controllerutil.ContainsFinalizer(cn, render.Finalizer) == wanted {
		return nil
	}
	before := cn.DeepCopy()
	if wanted {
		controllerutil.AddFinalizer(cn, render.Finalizer)
	} else {
		controllerutil.RemoveFinalizer(cn, render.Finalizer)
	}
	if err := r.Client.Patch(ctx, cn, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}), fieldOwner); err != nil {
		return fmt.Errorf("finalizer of ClusterNetwork %s: %w", cn.Name, err)
	}
	return nil
}
