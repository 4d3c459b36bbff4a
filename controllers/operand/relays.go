package operand

import (
	"context"
	"errors"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/install/render"
	"github.com/weft-network/weft/pkg/process/trigger"
)

// relayUsers passes changes of the relays that a node uses. A relay that is no longer wanted stays until no node uses it.
func relayUsers() predicate.Predicate {
	return trigger.Changed(func(before, now *networkv1alpha1.NodeNetwork) bool {
		return !slices.Equal(before.Spec.Relays, now.Spec.Relays)
	})
}

// relaysOf are the relays of a zone, or of the default zone.
type relaysOf struct {
	zone   string // "" for the default zone
	wanted networkv1alpha1.Relays
	// now are the relays, before of the last status.
	before, now []networkv1alpha1.RelayStatus
	place       *render.Place
	frozen      bool // as in render.Zone
}

// allRelays returns the relays of the default zone and of all zones, as the last status has them.
func allRelays(cn *networkv1alpha1.ClusterNetwork, place *render.Place) []relaysOf {
	all := []relaysOf{{wanted: cn.Spec.Databases.Relays, before: cn.Status.Relays, place: place}}
	for i := range place.Zones {
		z := &place.Zones[i]
		one := relaysOf{zone: z.Name, place: &z.Place, frozen: z.Frozen}
		for _, wanted := range cn.Spec.Zones {
			if string(wanted.Name) == z.Name {
				one.wanted = wanted.Databases.Relays
			}
		}
		if state := stateOf(&cn.Status, z.Name); state != nil {
			one.before = state.Relays
		}
		all = append(all, one)
	}
	for i := range all {
		all[i].now = all[i].before
	}
	return all
}

// stateOf returns the state of a zone in the status, or nil.
func stateOf(status *networkv1alpha1.ClusterNetworkStatus, zone string) *networkv1alpha1.ZoneStatus {
	for i := range status.Zones {
		if string(status.Zones[i].Name) == zone {
			return &status.Zones[i]
		}
	}
	return nil
}

// relays adds the relays of the southbound databases to the place, and reports their states. Nodes use a relay from the
// moment when it is reported as ready, and its pod stays until no node uses it.
func (r *Reconciler) relays(ctx context.Context, cn *networkv1alpha1.ClusterNetwork, place render.Place) (render.Place, error) {
	all := allRelays(cn, &place)
	if slices.ContainsFunc(all, func(one relaysOf) bool { return one.wanted.Count > 0 || len(one.before) > 0 || one.frozen }) {
		if err := r.chooseRelays(ctx, cn, place.DatabaseNodes(), all); err != nil {
			return place, err
		}
	}
	for _, one := range all {
		*one.place = one.place.WithRelays(one.now)
	}
	if err := r.reportRelays(ctx, cn, all); err != nil {
		return place, err
	}
	return place, r.deleteUnused(ctx, all, place.HasRelays())
}

// chooseRelays sets the relays of all zones that have workloads in the spec. Other zones keep the relays that their nodes use.
// databases are the nodes of all databases.
func (r *Reconciler) chooseRelays(ctx context.Context, cn *networkv1alpha1.ClusterNetwork, databases []string, all []relaysOf) error {
	var pods corev1.PodList
	var nodes corev1.NodeList
	var networks networkv1alpha1.NodeNetworkList
	if err := errors.Join(r.Client.List(ctx, &nodes), r.Client.List(ctx, &networks),
		r.Client.List(ctx, &pods, client.InNamespace(r.Facts.Namespace))); err != nil {
		return err
	}
	pods.Items = slices.DeleteFunc(pods.Items, func(p corev1.Pod) bool { return !render.IsRelay(&p) })
	for i := range all {
		one := &all[i]
		switch {
		case one.frozen && stateOf(&cn.Status, one.zone) == nil:
			one.now = render.LeftRelays(one.zone, nodes.Items, networks.Items)
		case !one.frozen:
			var others []networkv1alpha1.RelayStatus
			for j := range all {
				if j != i {
					others = append(others, all[j].now...)
				}
			}
			one.now = render.NextRelays(render.RelayFacts{Zone: one.zone, Zones: cn.Spec.Zones, Wanted: one.wanted, Before: one.before,
				Others: others, Nodes: nodes.Items, Databases: databases, Pods: pods.Items, Networks: networks.Items})
		}
	}
	return nil
}

// reportRelays writes the relays' states if they differ, and records an event for each relay that nodes begin or cease
// to use.
func (r *Reconciler) reportRelays(ctx context.Context, cn *networkv1alpha1.ClusterNetwork, all []relaysOf) error {
	before := cn.DeepCopy()
	for _, one := range all {
		if one.zone == "" {
			cn.Status.Relays = one.now
		} else if state := stateOf(&cn.Status, one.zone); state != nil {
			state.Relays = one.now
		}
	}
	if equality.Semantic.DeepEqual(before.Status, cn.Status) {
		return nil
	}
	if err := r.Client.Status().Patch(ctx, cn, client.MergeFrom(before), fieldOwner); err != nil {
		return fmt.Errorf("status of ClusterNetwork %s: %w", cn.Name, err)
	}
	for _, one := range all {
		r.recordRelays(cn, one)
	}
	return nil
}

// recordRelays records an event for each relay whose state changed. A relay that starts is not worth one.
func (r *Reconciler) recordRelays(cn *networkv1alpha1.ClusterNetwork, one relaysOf) {
	of := ""
	if one.zone != "" {
		of = " of zone " + one.zone
	}
	for _, relay := range one.now {
		i := slices.IndexFunc(one.before, func(b networkv1alpha1.RelayStatus) bool { return b.Node == relay.Node })
		if i >= 0 && one.before[i].State == relay.State || i < 0 && relay.State == networkv1alpha1.RelayStarting {
			continue
		}
		kind, message := corev1.EventTypeNormal, ""
		if relay.State == networkv1alpha1.RelayUnavailable {
			kind, message = corev1.EventTypeWarning, ": "+relay.Message
		}
		r.Events.Eventf(cn, nil, kind, "Relay"+string(relay.State), "Apply", "the relay%s on node %s is %s%s", of, relay.Node, relay.State,
			message)
	}
}

// deleteUnused deletes what only relays need, in each zone without relays. The Secret goes when no zone has relays: some is false.
func (r *Reconciler) deleteUnused(ctx context.Context, all []relaysOf, some bool) error {
	var unused []client.Object
	for _, one := range all {
		if len(one.now) == 0 && !one.frozen {
			unused = append(unused, r.relayWorkloads(one.zone)...)
		}
	}
	if !some {
		unused = append(unused, &corev1.Secret{ObjectMeta: r.meta(render.RelaySecret)})
	}
	return r.deleteIfThere(ctx, unused...)
}

// relayWorkloads returns the workloads of the relays of a zone, or of the default zone for "".
func (r *Reconciler) relayWorkloads(zone string) []client.Object {
	return []client.Object{&appsv1.DaemonSet{ObjectMeta: r.meta(render.RelaysOf(zone))},
		&appsv1.DaemonSet{ObjectMeta: r.meta(render.SourcesOf(zone))}}
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
