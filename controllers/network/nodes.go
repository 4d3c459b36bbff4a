package network

import (
	"context"
	"errors"
	"net/netip"

	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/ovndb"
	"github.com/weft-network/weft/pkg/topology"
	"github.com/weft-network/weft/pkg/unit"
)

// Nodes reconciles nodes' parts of Networks. The namespace of a request is the Network, its name is the node.
type Nodes struct {
	Client   client.Client
	Database Database
}

// Reconcile implements reconcile.Reconciler.
func (r *Nodes) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	want, err := r.unit(ctx, req.Namespace, req.Name)
	var invalid invalidNetwork
	if errors.As(err, &invalid) {
		return ctrl.Result{}, nil // what is in the database stays, and the Network's condition says why
	}
	if err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{}, ovndb.IgnorePending(r.Database.Apply(ctx, want))
}

// invalidNetwork says why a Network cannot be read.
type invalidNetwork struct{ error }

// unit returns the unit of a node's part; it is empty if the Network or the node does not exist, or the Network has
// no part for the node, which the pods that request it there report.
func (r *Nodes) unit(ctx context.Context, network, node string) (want unit.Unit, err error) {
	want.Key = topology.PodNetworkNodeKey(network, node)
	var o networkv1alpha1.Network
	var nn networkv1alpha1.NodeNetwork
	err = r.Client.Get(ctx, types.NamespacedName{Name: network}, &o)
	if err == nil {
		err = r.Client.Get(ctx, types.NamespacedName{Name: node}, &nn)
	}
	if err != nil {
		return want, client.IgnoreNotFound(err)
	}
	n, err := facts.ParseNetwork(&o)
	if err != nil {
		return want, invalidNetwork{err}
	}
	if !n.PerNode() || nn.Spec.NodeID == 0 {
		return want, nil
	}
	pools, err := n.Pools(node, int(nn.Spec.NodeID))
	if err != nil {
		return want, nil
	}
	var subnets []netip.Prefix
	for _, pool := range pools {
		subnets = append(subnets, pool.Subnet)
	}
	return topology.PodNetworkNodeUnit(n, node, subnets), nil
}
