// Package transit connects the zones of a cluster. Each zone has a switch that all share, with a port for each node of the cluster.
//
//	ClusterNetwork ─▶ transit/default       the switch, and the zone's router on it
//	NodeNetworks   ─▶ transitnode/<node>    where packets come in for a node of the zone, or where they leave to a node elsewhere
//
// Without zones there are no such rows.
package transit

import (
	"context"
	"errors"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/controllers/kind"
	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/ovndb"
	"github.com/weft-network/weft/pkg/process/trigger"
	"github.com/weft-network/weft/pkg/topology"
	"github.com/weft-network/weft/pkg/unit"
)

// workers is how many nodes are reconciled concurrently. Their writes share transactions.
const workers = 16

// theNetwork is the name of the only ClusterNetwork.
var theNetwork = types.NamespacedName{Name: networkv1alpha1.ClusterNetworkName}

// Database is the part of the engine that the reconcilers use.
type Database interface {
	Apply(ctx context.Context, u unit.Unit) error
}

// Reconciler reconciles the zone's connection to the others. Its request is the ClusterNetwork.
type Reconciler struct {
	Client   client.Client
	Database Database
	Zone     kind.Zone
}

// Nodes reconciles the nodes' parts of that connection. Its request is a Node.
type Nodes struct{ Reconciler }

// Kinds returns the kinds of both.
func Kinds(env *kind.Env) []*kind.Kind {
	r := &Reconciler{Client: env.Client, Database: env.Database, Zone: env.Zone}
	nodes := &Nodes{*r}
	changed := trigger.Changed(networkChanged)
	return []*kind.Kind{{
		Name: topology.KindTransit, Reconciler: r,
		Owner:   func() client.Object { return &networkv1alpha1.ClusterNetwork{} },
		Watches: []kind.Watch{kind.Of(&networkv1alpha1.ClusterNetwork{}, changed)},
	}, {
		Name: topology.KindTransitNode, Workers: workers, Reconciler: nodes,
		Owner:   func() client.Object { return &corev1.Node{} },
		Indexes: []kind.Index{{Object: &networkv1alpha1.NodeNetwork{}, Field: byTunnel, Values: indexByTunnel}},
		Watches: []kind.Watch{
			kind.Of(&networkv1alpha1.NodeNetwork{}, trigger.Changed(nodeChanged)),
			kind.Of(&corev1.Node{}, predicate.Funcs{UpdateFunc: func(event.UpdateEvent) bool { return false }}),
			kind.Map(&networkv1alpha1.ClusterNetwork{}, nodes.all, changed),
			kind.On(&networkv1alpha1.NodeNetwork{}, nodes.rivals()),
		},
	}}
}

// Reconcile implements reconcile.Reconciler.
func (r *Reconciler) Reconcile(ctx context.Context, _ ctrl.Request) (ctrl.Result, error) {
	zone, zoned, known, err := r.zone(ctx)
	if err != nil || !known {
		return ctrl.Result{}, err
	}
	want := unit.Unit{Key: topology.TransitKey()}
	if zoned {
		want = topology.TransitUnit(zone)
	}
	return ctrl.Result{}, ovndb.IgnorePending(r.Database.Apply(ctx, want))
}

// zone reads how the zone is connected. zoned is false without zones, and known while the ClusterNetwork cannot be read.
func (r *Reconciler) zone(ctx context.Context) (zone facts.Transit, zoned, known bool, err error) {
	var cn networkv1alpha1.ClusterNetwork
	if err := r.Client.Get(ctx, theNetwork, &cn); err != nil {
		return zone, false, false, client.IgnoreNotFound(err)
	}
	plan, err := facts.PlanInForce(&cn)
	if err != nil || facts.AwaitsJudgement(&cn) {
		return zone, false, false, nil // the ClusterNetwork's condition reports it
	}
	zone, zoned = plan.Transit(&cn, networkv1alpha1.ZoneName(r.Zone))
	return zone, zoned, true, nil
}

// Reconcile implements reconcile.Reconciler.
func (r *Nodes) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	none := unit.Unit{Key: topology.TransitNodeKey(req.Name)}
	var nn networkv1alpha1.NodeNetwork
	err := errors.Join(r.Client.Get(ctx, req.NamespacedName, &corev1.Node{}), r.Client.Get(ctx, req.NamespacedName, &nn))
	if apierrors.IsNotFound(err) { // in any case, because no later event has a node without network
		return ctrl.Result{}, ovndb.IgnorePending(r.Database.Apply(ctx, none))
	} else if err != nil {
		return ctrl.Result{}, err
	}
	zone, zoned, known, err := r.zone(ctx)
	if err != nil || !known {
		return ctrl.Result{}, err
	}
	claimed, err := r.claimedTwice(ctx, &nn)
	if err != nil {
		return ctrl.Result{}, err
	}
	read, ok, err := facts.ParseTransitNode(&nn, zone, r.Zone.Elsewhere(&nn))
	switch {
	case err != nil:
		return ctrl.Result{}, nil // the node's own controller reports it
	case !ok || !zoned || claimed:
		return ctrl.Result{}, ovndb.IgnorePending(r.Database.Apply(ctx, none))
	}
	applied := r.Database.Apply(ctx, topology.TransitNodeUnit(read))
	if refused := (*ovndb.RejectedError)(nil); errors.As(applied, &refused) {
		// Two nodes that exchanged their IDs or subnets would wait for each other's rows for ever.
		return ctrl.Result{}, errors.Join(applied, ovndb.IgnorePending(r.Database.Apply(ctx, none)))
	}
	return ctrl.Result{}, ovndb.IgnorePending(applied)
}

// claimedTwice reports whether another node has the chassis or a tunnel end of a node elsewhere. Agents report both. A port
// for such a node would take the other node's packets.
func (r *Nodes) claimedTwice(ctx context.Context, nn *networkv1alpha1.NodeNetwork) (bool, error) {
	if !r.Zone.Elsewhere(nn) {
		return false, nil
	}
	for _, claim := range claimsOf(nn) {
		others, err := r.claiming(ctx, claim)
		if err != nil || len(others) > 1 {
			return err == nil, err
		}
	}
	return false, nil
}

// claiming lists the nodes that report a chassis or a tunnel end.
func (r *Nodes) claiming(ctx context.Context, claim string) ([]networkv1alpha1.NodeNetwork, error) {
	var list networkv1alpha1.NodeNetworkList
	err := r.Client.List(ctx, &list, client.MatchingFields{byTunnel: claim})
	return list.Items, err
}

// byTunnel is an index of NodeNetworks by what their agents report of tunnels.
const byTunnel = "status.tunnel"

// claimsOf returns the keys of a NodeNetwork in the index byTunnel.
func claimsOf(nn *networkv1alpha1.NodeNetwork) (claims []string) {
	if nn.Status.Chassis != "" {
		claims = append(claims, "chassis "+nn.Status.Chassis)
	}
	for _, end := range append([]networkv1alpha1.IP{nn.Status.EncapIP}, nn.Status.FurtherEncapIPs...) {
		if end != "" {
			claims = append(claims, "tunnel "+string(end))
		}
	}
	return claims
}

// indexByTunnel is the function of the index byTunnel.
func indexByTunnel(o client.Object) []string {
	nn, ok := o.(*networkv1alpha1.NodeNetwork)
	if !ok {
		return nil
	}
	return claimsOf(nn)
}

// rivals enqueues the nodes that report a chassis or a tunnel end that a changed NodeNetwork reports, or reported.
func (r *Nodes) rivals() handler.Funcs {
	type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
	enqueue := func(ctx context.Context, q queue, objects ...client.Object) {
		for _, o := range objects {
			for _, claim := range indexByTunnel(o) {
				nodes, _ := r.claiming(ctx, claim) // the cache returns no errors once it is in sync
				for i := range nodes {
					q.Add(reconcile.Request{NamespacedName: types.NamespacedName{Name: nodes[i].Name}})
				}
			}
		}
	}
	return handler.Funcs{
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q queue) { enqueue(ctx, q, e.Object) },
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q queue) {
			if !slices.Equal(indexByTunnel(e.ObjectOld), indexByTunnel(e.ObjectNew)) {
				enqueue(ctx, q, e.ObjectOld, e.ObjectNew)
			}
		},
	}
}

// all returns a request for each node.
func (r *Nodes) all(ctx context.Context, _ client.Object) []reconcile.Request {
	return kind.Requests(ctx, r.Client, &networkv1alpha1.NodeNetworkList{})
}

// networkChanged passes changes of the zones, and of the networks that are in force.
func networkChanged(before, after *networkv1alpha1.ClusterNetwork) bool {
	return before.Generation != after.Generation || !facts.SameNetworks(before.Status.Networks, after.Status.Networks)
}

// nodeChanged passes changes of a node's zone, addresses, chassis and tunnels.
func nodeChanged(before, after *networkv1alpha1.NodeNetwork) bool {
	return before.Generation != after.Generation || before.Status.Chassis != after.Status.Chassis ||
		before.Status.EncapIP != after.Status.EncapIP ||
		!equality.Semantic.DeepEqual(before.Status.FurtherEncapIPs, after.Status.FurtherEncapIPs)
}
