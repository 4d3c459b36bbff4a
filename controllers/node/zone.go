package node

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/ovndb"
	"github.com/weft-network/weft/pkg/process/trigger"
)

// addZone adds the node's zone to its settings, and the relays of that zone. A node in a zone that left the spec keeps its relays.
func (r *Reconciler) addZone(ctx context.Context, node *corev1.Node, cn *networkv1alpha1.ClusterNetwork, to *facts.Settings) error {
	var nn networkv1alpha1.NodeNetwork
	if len(cn.Spec.Zones) > 0 {
		err := r.Client.Get(ctx, types.NamespacedName{Name: node.Name}, &nn)
		if client.IgnoreNotFound(err) != nil {
			return err
		}
	}
	to.Zone, to.Databases = facts.NodeZone(cn, node.Labels, nn.Spec)
	to.Relays = nn.Spec.Relays
	if relays, ok := facts.RelaysOf(cn, to.Zone); ok {
		to.Relays = facts.NodeRelays(node.Name, relays)
	}
	return nil
}

// follow applies the rows of a node whose network the cluster's operator has chosen.
func (r *Reconciler) follow(ctx context.Context, name types.NamespacedName) (ctrl.Result, error) {
	var node corev1.Node
	var nn networkv1alpha1.NodeNetwork
	var cn networkv1alpha1.ClusterNetwork
	err := errors.Join(r.Client.Get(ctx, name, &node), r.Client.Get(ctx, name, &nn))
	if apierrors.IsNotFound(err) {
		return ctrl.Result{}, r.vacate(ctx, name.Name)
	}
	if err := errors.Join(err, r.Client.Get(ctx, types.NamespacedName{Name: networkv1alpha1.ClusterNetworkName}, &cn)); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	plan, err := facts.PlanInForce(&cn)
	if err != nil || len(nn.Spec.PodSubnets) == 0 {
		return ctrl.Result{}, nil // the cluster's operator reports it
	}
	applied := r.apply(ctx, &nn, plan)
	var reported error
	if !r.Zone.Elsewhere(&nn) {
		gateway, unreadable := facts.NodeGateway(cn.Spec.Gateway, node.Labels)
		if unreadable != nil { // the cluster's operator reports it
			gateway = nn.Spec.Gateway
		}
		reported = r.report(ctx, &nn, applied, gateway, r.physicalUsers(ctx, nn.Name, &cn))
	}
	if err := errors.Join(ovndb.IgnorePending(applied), ignoreConflict(reported)); err != nil {
		return ctrl.Result{}, err
	}
	if reported != nil { // the agent or the cluster's operator has written meanwhile
		return ctrl.Result{RequeueAfter: trigger.FirstRetry}, nil
	}
	return ctrl.Result{}, nil
}

// setSubnetsFull sets or removes the condition SubnetsFull of a NodeNetwork, and reports whether that changed it. While pods lack an
// address and no family is full, the condition stays: the pods are about to get an address, or to find none again.
func (r *Reconciler) setSubnetsFull(nn *networkv1alpha1.NodeNetwork) (changed bool) {
	if !r.Zone.Follows() || r.Addresses.Known() && !r.PodsLackAddress(nn.Name) {
		return meta.RemoveStatusCondition(&nn.Status.Conditions, networkv1alpha1.ConditionSubnetsFull)
	}
	families := r.Addresses.Lacking(nn.Name)
	return len(families) > 0 && meta.SetStatusCondition(&nn.Status.Conditions, facts.SubnetsFull(nn, families))
}
