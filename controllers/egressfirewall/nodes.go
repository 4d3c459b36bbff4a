package egressfirewall

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/ovndb"
	"github.com/weft-network/weft/pkg/process/trigger"
	"github.com/weft-network/weft/pkg/topology"
	"github.com/weft-network/weft/pkg/unit"
)

// Nodes reconciles the sets of nodes' addresses. Its request is the hash of a selector.
type Nodes struct {
	Client   client.Client
	Database Database
	Triggers *trigger.Set
}

// Reconcile implements reconcile.Reconciler.
func (r *Nodes) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	key := topology.NodesKey(req.Name)
	firewalls, err := users(ctx, r.Client, string(key))
	if err != nil {
		return ctrl.Result{}, err
	}
	if len(firewalls) == 0 {
		return ctrl.Result{}, ovndb.IgnorePending(r.Database.Apply(ctx, unit.Unit{Key: key}))
	}
	var nodes corev1.NodeList
	if err := r.Client.List(ctx, &nodes); err != nil {
		return ctrl.Result{}, err
	}
	read, err := facts.ParseEgressFirewall(&firewalls[0], nil)
	if err != nil {
		return ctrl.Result{}, err // the index has no firewall that cannot be read
	}
	made := !r.Database.Wanted(key)
	addresses := facts.AddressesOfNodes(topology.SelectorOf(read, key), nodes.Items)
	applied := ovndb.IgnorePending(r.Database.Apply(ctx, topology.AddressSetUnit(key, addresses)))
	if made {
		return ctrl.Result{}, errors.Join(applied, enqueueUsers(ctx, r.Client, key, r.Triggers))
	}
	return ctrl.Result{}, applied
}

// InUse returns a request for each set of nodes that a firewall names.
func (r *Nodes) InUse(ctx context.Context, _ client.Object) (all []reconcile.Request) {
	firewalls, err := users(ctx, r.Client, topology.KindNodes)
	if err != nil {
		return nil // the cache returns no errors once it is in sync
	}
	seen := map[reconcile.Request]bool{}
	for i := range firewalls {
		for _, request := range requests(topology.KindNodes)(ctx, &firewalls[i]) {
			if !seen[request] {
				seen[request], all = true, append(all, request)
			}
		}
	}
	return all
}
