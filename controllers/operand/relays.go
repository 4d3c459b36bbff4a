package operand

import (
	"context"
	"errors"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/install/render"
	"github.com/weft-network/weft/pkg/install/rollout"
)

// relayUsers passes changes of the relays that a node uses. A relay that is no longer wanted stays until no node uses it.
func relayUsers() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, now := e.ObjectOld.(*networkv1alpha1.NodeNetwork), e.ObjectNew.(*networkv1alpha1.NodeNetwork)
		return !slices.Equal(before.Spec.Relays, now.Spec.Relays)
	}}
}

// relays adds the relays of the southbound database to the place, and reports their states. Nodes use a relay from the
// moment when it is reported as ready, and its pod stays until no node uses it.
func (r *Reconciler) relays(ctx context.Context, cn *networkv1alpha1.ClusterNetwork, place render.Place) (render.Place, error) {
	if cn.Spec.Databases.Relays.Count == 0 && len(cn.Status.Relays) == 0 {
		return place, r.noRelays(ctx)
	}
	var pods corev1.PodList
	var nodes corev1.NodeList
	var networks networkv1alpha1.NodeNetworkList
	if err := errors.Join(r.Client.List(ctx, &nodes), r.Client.List(ctx, &networks), r.Client.List(ctx, &pods,
		client.InNamespace(r.Facts.Namespace), client.MatchingLabels{rollout.ComponentLabel: "relay"})); err != nil {
		return place, err
	}
	next := render.NextRelays(render.RelayFacts{Wanted: cn.Spec.Databases.Relays, Before: cn.Status.Relays, Nodes: nodes.Items,
		Databases: place, Pods: pods.Items, Networks: networks.Items})
	if err := r.reportRelays(ctx, cn, next); err != nil {
		return place, err
	}
	if len(next) == 0 {
		return place, r.noRelays(ctx)
	}
	return place.WithRelays(next), nil
}

// reportRelays writes the relays' states if they differ, and records an event for each relay that nodes begin or cease
// to use.
func (r *Reconciler) reportRelays(ctx context.Context, cn *networkv1alpha1.ClusterNetwork, now []networkv1alpha1.RelayStatus) error {
	was := cn.Status.Relays
	if slices.Equal(was, now) {
		return nil
	}
	before := cn.DeepCopy()
	cn.Status.Relays = now
	if err := r.Client.Status().Patch(ctx, cn, client.MergeFrom(before), fieldOwner); err != nil {
		return fmt.Errorf("status of ClusterNetwork %s: %w", cn.Name, err)
	}
	for _, relay := range now {
		i := slices.IndexFunc(was, func(b networkv1alpha1.RelayStatus) bool { return b.Node == relay.Node })
		if i >= 0 && was[i].State == relay.State || i < 0 && relay.State == networkv1alpha1.RelayStarting {
			continue
		}
		kind, message := corev1.EventTypeNormal, ""
		if relay.State == networkv1alpha1.RelayUnavailable {
			kind, message = corev1.EventTypeWarning, ": "+relay.Message
		}
		r.Events.Eventf(cn, nil, kind, "Relay"+string(relay.State), "Apply", "the relay on node %s is %s%s", relay.Node, relay.State, message)
	}
	return nil
}

// noRelays deletes what only relays need.
func (r *Reconciler) noRelays(ctx context.Context) error {
	return r.deleteIfThere(ctx, &appsv1.DaemonSet{ObjectMeta: r.meta(render.Relays)}, &appsv1.DaemonSet{ObjectMeta: r.meta(render.Sources)},
		&corev1.Secret{ObjectMeta: r.meta(render.RelaySecret)})
}

// deleteIfThere deletes objects that the cache has.
func (r *Reconciler) deleteIfThere(ctx context.Context, objects ...client.Object) error {
	for _, object := range objects {
		err := r.Client.Get(ctx, client.ObjectKeyFromObject(object), object)
		if err == nil && object.GetDeletionTimestamp().IsZero() {
			err = r.Client.Delete(ctx, object, client.PropagationPolicy(metav1.DeletePropagationBackground))
		}
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("%s: %w", object.GetName(), err)
		}
	}
	return nil
}
