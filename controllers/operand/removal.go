package operand

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/operand"
)

const (
	// podsAgain is when pods that keep a network from being removed are looked for again: nothing else here wants to hear of all pods of a cluster.
	podsAgain = 5 * time.Second
	// podsNamed bounds how many of them are named.
	podsNamed = 5
)

// remove takes the network off the cluster when nobody uses it any more, and then lets the ClusterNetwork go. It begins anew at each call, by what is
// there; every step waits for the end of the one before.
func (r *Reconciler) remove(ctx context.Context, cn *networkv1alpha1.ClusterNetwork) (reconcile.Result, error) {
	if !controllerutil.ContainsFinalizer(cn, operand.Finalizer) {
		return reconcile.Result{}, nil
	}
	begun, err := r.begun(ctx)
	if err != nil {
		return reconcile.Result{}, err
	}
	if !begun {
		if users, err := r.users(ctx); err != nil || len(users) > 0 {
			r.tellUsers(cn, users)
			return reconcile.Result{RequeueAfter: podsAgain}, err
		}
	}
	for _, step := range []func(context.Context, *networkv1alpha1.ClusterNetwork) (done bool, err error){
		func(ctx context.Context, _ *networkv1alpha1.ClusterNetwork) (bool, error) {
			return r.gone(ctx, operand.RemovedFirst)
		},
		r.nodesCleared,
		func(ctx context.Context, _ *networkv1alpha1.ClusterNetwork) (bool, error) {
			return r.gone(ctx, operand.RemovedLast)
		},
	} {
		if done, err := step(ctx, cn); err != nil || !done {
			return reconcile.Result{}, err
		}
	}
	if err := r.Client.Delete(ctx, &corev1.Pod{ObjectMeta: r.meta(operand.Preflight)}); client.IgnoreNotFound(err) != nil {
		return reconcile.Result{}, err
	}
	for _, name := range operand.SecretNames() {
		if err := r.Client.Delete(ctx, &corev1.Secret{ObjectMeta: r.meta(name)}); client.IgnoreNotFound(err) != nil {
			return reconcile.Result{}, err
		}
	}
	r.Events.Eventf(cn, nil, corev1.EventTypeNormal, "NetworkRemoved", "Remove", "nothing of it is left on any node")
	return reconcile.Result{}, r.finalize(ctx, cn, false)
}

// begun tells whether the agents are gone or going: from then on pods have no say.
func (r *Reconciler) begun(ctx context.Context) (bool, error) {
	agent := &appsv1.DaemonSet{}
	err := r.Client.Get(ctx, r.own(operand.AgentAccount), agent)
	return apierrors.IsNotFound(err) || err == nil && !agent.DeletionTimestamp.IsZero(), client.IgnoreNotFound(err)
}

// users are pods that have an interface of the network, podsNamed and one more at most.
func (r *Reconciler) users(ctx context.Context) (users []string, err error) {
	selector := fields.AndSelectors(fields.OneTermEqualSelector("spec.hostNetwork", "false"), fields.OneTermNotEqualSelector("spec.nodeName", ""),
		fields.OneTermNotEqualSelector("status.phase", string(corev1.PodSucceeded)), fields.OneTermNotEqualSelector("status.phase", string(corev1.PodFailed)))
	var pods metav1.PartialObjectMetadataList
	pods.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("PodList"))
	err = r.Live.List(ctx, &pods, &client.ListOptions{FieldSelector: selector, Limit: podsNamed + 1})
	for i := range pods.Items {
		users = append(users, pods.Items[i].Namespace+"/"+pods.Items[i].Name)
	}
	return users, err
}

func (r *Reconciler) tellUsers(cn *networkv1alpha1.ClusterNetwork, users []string) {
	if len(users) == 0 {
		return
	}
	more := ""
	if len(users) > podsNamed {
		users, more = users[:podsNamed], " and others"
	}
	r.Events.Eventf(cn, nil, corev1.EventTypeWarning, "PodsRemain", "Remove", "nothing is removed while pods use the network: %s%s", strings.Join(users, ", "), more)
}

// gone deletes workloads, and tells whether they and their pods are no more.
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

// nodesCleared tells whether nothing is left on any node. It is over when Open vSwitch, which it needs, is going.
func (r *Reconciler) nodesCleared(ctx context.Context, cn *networkv1alpha1.ClusterNetwork) (bool, error) {
	switches := &appsv1.DaemonSet{}
	err := r.Client.Get(ctx, r.own(operand.Switches), switches)
	if apierrors.IsNotFound(err) || err == nil && !switches.DeletionTimestamp.IsZero() {
		return true, nil
	} else if err != nil {
		return false, err
	}
	want, err := operand.Removal(r.Facts)
	if err != nil {
		return false, err
	}
	if err := r.workload(ctx, cn, want); err != nil {
		return false, err
	}
	have := &appsv1.DaemonSet{}
	if err := r.Client.Get(ctx, r.own(operand.Uninstall), have); err != nil {
		return false, client.IgnoreNotFound(err) // the cache will hear of it
	}
	s := have.Status
	return s.ObservedGeneration == have.Generation && s.NumberReady == s.DesiredNumberScheduled && s.UpdatedNumberScheduled == s.DesiredNumberScheduled, nil
}

func (r *Reconciler) meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: r.Facts.Namespace, Name: name}
}

// finalize has the finalizer on the ClusterNetwork, or not.
func (r *Reconciler) finalize(ctx context.Context, cn *networkv1alpha1.ClusterNetwork, wanted bool) error {
	if controllerutil.ContainsFinalizer(cn, operand.Finalizer) == wanted {
		return nil
	}
	before := cn.DeepCopy()
	if wanted {
		controllerutil.AddFinalizer(cn, operand.Finalizer)
	} else {
		controllerutil.RemoveFinalizer(cn, operand.Finalizer)
	}
	if err := r.Client.Patch(ctx, cn, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}), fieldOwner); err != nil {
		return fmt.Errorf("finalizer of ClusterNetwork %s: %w", cn.Name, err)
	}
	return nil
}
