package controllers

import (
	"context"

	"github.com/weft-network/weft/pkg/names"
	"github.com/weft-network/weft/pkg/nbdb"
	"github.com/weft-network/weft/pkg/ovndb"
	"github.com/weft-network/weft/pkg/topology"
	"github.com/weft-network/weft/pkg/unit"
)

// database gives the reconcilers the reads that they need of the engine's copy of the northbound database.
type database struct{ *ovndb.Engine }

// Ports waits for the database and lists the ports of our own units.
func (d *database) Ports(ctx context.Context) ([]*nbdb.LogicalSwitchPort, error) {
	if err := d.Wait(ctx, func() (bool, error) { return d.Connected(), nil }); err != nil {
		return nil, err
	}
	return ovndb.List(d.Conn, func(p *nbdb.LogicalSwitchPort) bool { return p.ExternalIDs[unit.OwnerKey] != "" }), nil
}

// ClusterID is the cluster that the cluster router belongs to.
func (d *database) ClusterID() string {
	routers := ovndb.List(d.Conn, func(r *nbdb.LogicalRouter) bool {
		return r.Name == names.ClusterRouter && r.ExternalIDs[unit.OwnerKey] == string(topology.NetworkKey())
	})
	if len(routers) == 0 {
		return ""
	}
	return routers[0].ExternalIDs[topology.ClusterIDKey]
}
