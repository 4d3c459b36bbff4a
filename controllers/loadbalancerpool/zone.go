package loadbalancerpool

import (
	"context"
	"errors"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/ovndb"
	"github.com/weft-network/weft/pkg/topology"
)

// follow applies the rows of the addresses for which the pool's status has chosen nodes of this zone.
func (r *Pools) follow(ctx context.Context, pool *networkv1alpha1.LoadBalancerPool) error {
	read := facts.LoadBalancerPool{Name: pool.Name, Announced: facts.AnnouncedBy(pool)}
	var err error
	for i := range read.Announced {
		a := &read.Announced[i]
		if a.ByHost, err = r.answersByHost(ctx, a.Node); err != nil {
			return err
		}
	}
	if read.Announced, err = r.own(ctx, read.Announced); err != nil {
		return err
	}
	return ovndb.IgnorePending(r.Database.Apply(ctx, topology.LoadBalancerPoolUnit(read)))
}

// answersByHost reports whether a node's host, and not its router, answers for addresses.
func (r *Pools) answersByHost(ctx context.Context, name string) (bool, error) {
	var node corev1.Node
	var nn networkv1alpha1.NodeNetwork
	key := types.NamespacedName{Name: name}
	err := errors.Join(r.Client.Get(ctx, key, &node), r.Client.Get(ctx, key, &nn))
	if err != nil {
		return false, client.IgnoreNotFound(err)
	}
	gateway, err := facts.ParseGateway(&nn, &node)
	return err == nil && gateway.AnswersByHost(), nil // the node's own controller reports the error
}

// own returns the addresses for which nodes of this zone answer.
func (r *Pools) own(ctx context.Context, all []facts.AnnouncedAddress) ([]facts.AnnouncedAddress, error) {
	var failed error
	own := slices.DeleteFunc(slices.Clone(all), func(a facts.AnnouncedAddress) bool {
		var nn networkv1alpha1.NodeNetwork
		err := r.Client.Get(ctx, types.NamespacedName{Name: a.Node}, &nn)
		if err != nil && !apierrors.IsNotFound(err) {
			failed = err
		}
		return err != nil || r.Zone.Elsewhere(&nn)
	})
	return own, failed
}
