package controllers

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weft-network/weft/pkg/names"
	"github.com/weft-network/weft/pkg/nbdb"
	"github.com/weft-network/weft/pkg/ovndb"
	"github.com/weft-network/weft/pkg/topology"
	"github.com/weft-network/weft/pkg/unit"
)

// database gives the reconcilers the reads that they need of the engine's copy of the northbound database.
type database struct {
	*ovndb.Engine
	live client.Reader
	told func() // is called when the database became refused, or is no more
	// begun is closed when units are applied; begin closes it.
	begun chan struct{}
	begin func()

	mu      sync.Mutex
	refused error
}

// beginning is how long a start waits at most until it is known which addresses are in use, before anything is applied.
const beginning = 5 * time.Second

// Apply is the engine's, once a start has got that far: pods that wait for their first address wait for nothing else, and what is applied before the
// database is there is only postponed, and reconciled once more.
func (d *database) Apply(ctx context.Context, u unit.Unit) error {
	select {
	case <-d.begun:
		return d.Engine.Apply(ctx, u)
	case <-ctx.Done():
		return fmt.Errorf("unit %s: %w", u.Key, ctx.Err())
	}
}

// Ports waits for the database and lists the ports of our own units.
func (d *database) Ports(ctx context.Context) ([]*nbdb.LogicalSwitchPort, error) {
	if err := d.Wait(ctx, func() (bool, error) { return d.Connected(), nil }); err != nil {
		return nil, err
	}
	return ovndb.List(d.Conn, func(p *nbdb.LogicalSwitchPort) bool { return p.ExternalIDs[unit.OwnerKey] != "" }), nil
}

// Refused says why the database that answers is not ours to write, or too old for that.
func (d *database) Refused() error {
	var old *ovndb.SchemaError
	if errors.As(d.Failure(), &old) {
		return old
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.refused
}

// admit refuses the database of another cluster: every row of a node or pod that this cluster does not have would be swept
// away there, and the epoch would stop the operator that it belongs to.
func (d *database) admit(ctx context.Context, rows *ovndb.Conn) error {
	theirs := clusterID(rows)
	var refused error
	if theirs != "" {
		var system corev1.Namespace
		if err := d.live.Get(ctx, types.NamespacedName{Name: "kube-system"}, &system); err != nil {
			return fmt.Errorf("identity of the cluster: %w", err)
		}
		if ours := string(system.UID); theirs != ours {
			refused = fmt.Errorf("the OVN northbound database belongs to the cluster %s, and this is %s; if it is to be taken over, remove %s from the external_ids of Logical_Router %s",
				theirs, ours, topology.ClusterIDKey, names.ClusterRouter)
		}
	}
	d.mu.Lock()
	changed := (d.refused == nil) != (refused == nil)
	d.refused = refused
	d.mu.Unlock()
	if changed {
		d.told()
	}
	return refused
}

// clusterID is the cluster that the cluster router belongs to; empty if it does not say.
func clusterID(rows *ovndb.Conn) string {
	routers := ovndb.List(rows, func(r *nbdb.LogicalRouter) bool {
		return r.Name == names.ClusterRouter && r.ExternalIDs[unit.OwnerKey] == string(topology.NetworkKey())
	})
	if len(routers) == 0 {
		return ""
	}
	return routers[0].ExternalIDs[topology.ClusterIDKey]
}
