// Package database adds to the engine what the operator's process needs: the refusal of another cluster's database,
// the first pass over all objects, and the measurement of how long a change takes to reach every chassis.
package database

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weft-network/weft/controllers/kind"
	"github.com/weft-network/weft/pkg/ovn/names"
	"github.com/weft-network/weft/pkg/ovn/nbdb"
	"github.com/weft-network/weft/pkg/ovndb"
	"github.com/weft-network/weft/pkg/topology"
	"github.com/weft-network/weft/pkg/unit"
)

// Database is the engine with the reads that reconcilers need from its copy of the northbound database. It refuses
// the database of another cluster.
type Database struct {
	*ovndb.Engine
	// Zone is the part of the cluster whose rows the database has.
	Zone kind.Zone
	// Written, if set, is called after each transaction that wrote rows. It must not block.
	Written func()

	live client.Reader
	// refusalChanged is called when Refused begins or ceases to return an error.
	refusalChanged func()
	// begun is closed when units may be applied.
	begun chan struct{}
	begin func() // closes begun

	mu      sync.Mutex
	refused error
}

// New returns a Database. Its Engine must be set before it is used. live reads from the API server. refusalChanged is
// called, and must only enqueue, when Refused begins or ceases to return an error.
func New(live client.Reader, refusalChanged func()) *Database {
	begun := make(chan struct{})
	return &Database{live: live, refusalChanged: refusalChanged, begun: begun, begin: sync.OnceFunc(func() { close(begun) })}
}

// Begin allows units to be applied.
func (d *Database) Begin() { d.begin() }

// BeginAfter calls Begin after a delay, unless stop is called before.
func (d *Database) BeginAfter(wait time.Duration) (stop func()) {
	timer := time.AfterFunc(wait, d.begin)
	return func() { timer.Stop() }
}

// StartLimit is the longest time that a start waits for the addresses in use before anything is applied.
const StartLimit = 5 * time.Second

// Begun waits for Begin.
func (d *Database) Begun(ctx context.Context) error {
	select {
	case <-d.begun:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Apply waits for Begin and then calls the engine's Apply. A unit that is applied earlier would only be postponed and
// reconciled once more, and would delay pods that wait for their first address.
func (d *Database) Apply(ctx context.Context, u unit.Unit) error {
	if err := d.Begun(ctx); err != nil {
		return fmt.Errorf("unit %s: %w", u.Key, err)
	}
	return d.Engine.Apply(ctx, u)
}

// ApplyAll waits for Begin and then calls the engine's ApplyAll.
func (d *Database) ApplyAll(ctx context.Context, units ...unit.Unit) error {
	if err := d.Begun(ctx); err != nil {
		return fmt.Errorf("units: %w", err)
	}
	return d.Engine.ApplyAll(ctx, units...)
}

// Ports waits for the database and lists the ports of our own units. They must not be changed.
func (d *Database) Ports(ctx context.Context) ([]*nbdb.LogicalSwitchPort, error) {
	if err := d.Wait(ctx, func() (bool, error) { return d.Connected(), nil }); err != nil {
		return nil, err
	}
	return ovndb.Shared(d.Conn, func(p *nbdb.LogicalSwitchPort) bool { return p.ExternalIDs[unit.OwnerKey] != "" }), nil
}

// Watched lists the BFD sessions of our own units. They must not be changed. It returns no session without a connection.
func (d *Database) Watched() []*nbdb.BFD {
	return ovndb.Shared(d.Conn, func(s *nbdb.BFD) bool { return s.ExternalIDs[unit.OwnerKey] != "" })
}

// Refused returns why this process must not write the connected database: it belongs to another cluster or is too
// old.
func (d *Database) Refused() error {
	var old *ovndb.SchemaError
	if errors.As(d.Failure(), &old) {
		return old
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.refused
}

// Admit refuses the database of another cluster, or of another zone. This cluster would sweep away all rows of nodes and pods that it
// does not have, and its epoch would stop the other cluster's operator.
func (d *Database) Admit(ctx context.Context, rows *ovndb.Conn) error {
	theirs := clusterID(rows)
	var refused error
	if theirs != "" {
		var system corev1.Namespace
		if err := d.live.Get(ctx, types.NamespacedName{Name: "kube-system"}, &system); err != nil {
			return fmt.Errorf("identity of the cluster: %w", err)
		}
		if ours := d.Zone.Database(string(system.UID)); theirs != ours {
			refused = fmt.Errorf(
				"the OVN northbound database belongs to the cluster %s, and this is %s; to take the database "+
					"over, remove %s from the external_ids of Logical_Router %s",
				theirs, ours, topology.ClusterIDKey, names.ClusterRouter)
		}
	}
	d.mu.Lock()
	changed := (d.refused == nil) != (refused == nil)
	d.refused = refused
	d.mu.Unlock()
	if changed {
		d.refusalChanged()
	}
	return refused
}

// clusterID returns the cluster that the cluster router belongs to, or "" if it names none.
func clusterID(rows *ovndb.Conn) string {
	routers := ovndb.List(rows, func(r *nbdb.LogicalRouter) bool {
		return r.Name == names.ClusterRouter && r.ExternalIDs[unit.OwnerKey] == string(topology.NetworkKey())
	})
	if len(routers) == 0 {
		return ""
	}
	return routers[0].ExternalIDs[topology.ClusterIDKey]
}
