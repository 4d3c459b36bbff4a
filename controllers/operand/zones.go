package operand

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/install/render"
	"github.com/weft-network/weft/pkg/process/trigger"
)

// zoneUsers passes changes of a node's zone. The workloads of a zone that left the spec stay until no node is in it.
func zoneUsers() predicate.Predicate {
	return trigger.Changed(func(before, now *networkv1alpha1.NodeNetwork) bool {
		return before.Spec.Zone != now.Spec.Zone
	})
}

// zoneFacts reads what the places of all databases depend on.
func (r *Reconciler) zoneFacts(ctx context.Context, cn *networkv1alpha1.ClusterNetwork) (render.ZoneFacts, error) {
	facts := render.ZoneFacts{Wanted: cn.Spec.Zones, States: cn.Status.Zones}
	var pods corev1.PodList
	var nodes corev1.NodeList
	var networks networkv1alpha1.NodeNetworkList
	before, err := r.zonesThere(ctx)
	if err = errors.Join(err, r.Client.List(ctx, &nodes)); err == nil && len(facts.Wanted)+len(before) > 0 {
		err = errors.Join(r.Client.List(ctx, &pods, client.InNamespace(r.Facts.Namespace)), r.Client.List(ctx, &networks))
	}
	facts.Before, facts.Pods, facts.Nodes, facts.Networks = before, pods.Items, nodes.Items, networks.Items
	return facts, err
}

// zonesThere returns the zones that have workloads.
func (r *Reconciler) zonesThere(ctx context.Context) (map[string]render.Before, error) {
	var databases appsv1.StatefulSetList
	var operators appsv1.DeploymentList
	ofZones, own := client.HasLabels{render.LabelZone}, client.InNamespace(r.Facts.Namespace)
	if err := errors.Join(r.Client.List(ctx, &databases, own, ofZones), r.Client.List(ctx, &operators, own, ofZones)); err != nil {
		return nil, err
	}
	there := map[string]render.Before{}
	for i := range operators.Items {
		there[operators.Items[i].Labels[render.LabelZone]] = render.Before{}
	}
	for i := range databases.Items {
		there[databases.Items[i].Labels[render.LabelZone]] = beforeOf(&databases.Items[i])
	}
	return there, nil
}

// zones adds the zones to the place, reports their states, and deletes the workloads of zones that no node uses.
func (r *Reconciler) zones(ctx context.Context, cn *networkv1alpha1.ClusterNetwork, facts render.ZoneFacts,
	place render.Place) (render.Place, error) {
	next := render.NextZones(facts, place)
	for _, name := range next.Unused {
		// The databases are the last, because their workload says that the zone is still there.
		if err := r.deleteIfThere(ctx, append(r.relayWorkloads(name), &appsv1.Deployment{ObjectMeta: r.meta(render.OperatorOf(name))},
			&appsv1.StatefulSet{ObjectMeta: r.meta(render.CentralOf(name))})...); err != nil {
			return place, err
		}
		r.Events.Eventf(cn, nil, corev1.EventTypeNormal, "ZoneRemoved", "Apply",
			"no node is in zone %s: its operator and its databases are deleted", name)
	}
	for _, z := range next.Zones {
		if !z.Frozen {
			r.recordMoved(cn, " of zone "+z.Name, facts.Before[z.Name].Nodes, facts.Nodes, z.Place)
		}
	}
	if err := r.reportZones(ctx, cn, next.Status); err != nil {
		return place, err
	}
	place.Zones = next.Zones
	return place, nil
}

// reportZones writes the zones' states if they differ, and records an event for each zone that becomes ready or ceases to be.
func (r *Reconciler) reportZones(ctx context.Context, cn *networkv1alpha1.ClusterNetwork, now []networkv1alpha1.ZoneStatus) error {
	was := cn.Status.Zones
	if equality.Semantic.DeepEqual(was, now) {
		return nil
	}
	before := cn.DeepCopy()
	cn.Status.Zones = now
	if err := r.Client.Status().Patch(ctx, cn, client.MergeFrom(before), fieldOwner); err != nil {
		return fmt.Errorf("status of ClusterNetwork %s: %w", cn.Name, err)
	}
	for _, zone := range now {
		i := slices.IndexFunc(was, func(b networkv1alpha1.ZoneStatus) bool { return b.Name == zone.Name })
		switch wasReady := i >= 0 && was[i].Ready; {
		case zone.Ready && !wasReady:
			r.Events.Eventf(cn, nil, corev1.EventTypeNormal, "ZoneReady", "Apply", "zone %s is ready, its databases are on node %s",
				zone.Name, zone.Node)
		case wasReady && !zone.Ready:
			r.Events.Eventf(cn, nil, corev1.EventTypeWarning, "ZoneNotReady", "Apply", "zone %s is not ready: %s", zone.Name, zone.Message)
		}
	}
	return nil
}

// zoneWorkloads returns the names of the zones' workloads, of the zones in the spec and of zones that left it. Relays count to the
// databases.
func (r *Reconciler) zoneWorkloads(ctx context.Context, cn *networkv1alpha1.ClusterNetwork) (operators, databases []string, err error) {
	there, err := r.zonesThere(ctx)
	if err != nil {
		return nil, nil, err
	}
	for _, z := range cn.Spec.Zones {
		there[string(z.Name)] = render.Before{}
	}
	for _, zone := range slices.Sorted(maps.Keys(there)) {
		operators = append(operators, render.OperatorOf(zone))
		databases = append(databases, render.RelaysOf(zone), render.SourcesOf(zone), render.CentralOf(zone))
	}
	return operators, databases, nil
}
