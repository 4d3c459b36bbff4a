package gateway

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/controllers/kind"
	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/process/trigger"
	"github.com/weft-network/weft/pkg/topology"
)

// workers is how many gateways are reconciled concurrently. Their writes share transactions.
const workers = 16

// Kinds returns the kind of gateways' units. It needs env.HasNoNetwork, which package node's Kinds sets.
func Kinds(env *kind.Env) []*kind.Kind {
	r := &Reconciler{Client: env.Client, Database: env.Database, Events: env.Events, HasNone: env.HasNoNetwork,
		Restore: func(ctx context.Context) error { return env.Restore(ctx) }, Addresses: env.Addresses, // package pod sets it later
		Zone: env.Zone}
	return []*kind.Kind{{
		Name: topology.KindGateway, Workers: workers, Reconciler: r,
		Owner: func() client.Object { return &corev1.Node{} },
		First: func() client.ObjectList { return &corev1.NodeList{} },
		Indexes: []kind.Index{
			{Object: &corev1.Node{}, Field: ByAddress, Values: IndexByAddress},
			{Object: &networkv1alpha1.NodeNetwork{}, Field: ByAddress, Values: IndexByAddress},
		},
		Watches: append(r.routedWatches(),
			kind.Of(&corev1.Node{}, trigger.Changed(nodeChanged)),
			kind.Of(&networkv1alpha1.NodeNetwork{}, trigger.Changed(networkChanged)),
			kind.Map(&corev1.Service{}, r.everyHost, kind.EgressSourceChanged()),
			kind.On(&corev1.Node{}, r.claimers()),
			kind.On(&networkv1alpha1.NodeNetwork{}, r.claimers()),
		),
	}}
}

// everyNode returns a request for each node.
func (r *Reconciler) everyNode(ctx context.Context, _ client.Object) []reconcile.Request {
	return kind.Requests(ctx, r.Client, &networkv1alpha1.NodeNetworkList{})
}

// everyHost returns a request for each node in Local mode, which has a router while Services are the source of their pods.
func (r *Reconciler) everyHost(ctx context.Context, _ client.Object) []reconcile.Request {
	return kind.RequestsIf(ctx, r.Client, &networkv1alpha1.NodeNetworkList{}, func(nn *networkv1alpha1.NodeNetwork) bool {
		return nn.Status.Gateway != nil && nn.Status.Gateway.Mode == networkv1alpha1.GatewayLocal
	})
}

// addLeaving adds whether Services are the source of their pods outside, to the facts of a node in Local mode.
func (r *Reconciler) addLeaving(ctx context.Context, to *facts.Gateway) error {
	if !to.AnswersByHost() {
		return nil
	}
	var services corev1.ServiceList
	err := r.Client.List(ctx, &services, client.MatchingFields{kind.ServicesLeaving: "true"})
	to.Leaving = facts.Leaving(services.Items)
	return err
}

// nodeChanged passes changes of the node's addresses, and of whether it may carry egress IPs.
func nodeChanged(before, after *corev1.Node) bool {
	return !equality.Semantic.DeepEqual(before.Status.Addresses, after.Status.Addresses) || carries(before) != carries(after)
}

func carries(node *corev1.Node) bool {
	_, labelled := node.Labels[networkv1alpha1.EgressAssignableLabel]
	return labelled
}

// networkChanged passes changes of the spec, the chassis, the link and our own condition. A write of the condition
// may have succeeded although its reply was lost.
func networkChanged(before, after *networkv1alpha1.NodeNetwork) bool {
	return before.Generation != after.Generation || before.Status.Chassis != after.Status.Chassis ||
		!equality.Semantic.DeepEqual(before.Status.Gateway, after.Status.Gateway) ||
		!slices.Equal(before.Status.HostAddresses, after.Status.HostAddresses) ||
		!equality.Semantic.DeepEqual(accepted(before), accepted(after))
}

func accepted(nn *networkv1alpha1.NodeNetwork) *metav1.Condition {
	return meta.FindStatusCondition(nn.Status.Conditions, networkv1alpha1.ConditionGatewayAccepted)
}
