package gateway

import (
	"context"
	"net"
	"net/netip"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/weft-network/weft/pkg/agent/nftables"
	"github.com/weft-network/weft/pkg/ipam/reserved"
)

// FreeReserved removes translations of this host's reserved ports from the nftables table of an earlier agent, whose
// version may not have had reserved ports. The agent calls it before it needs the API server or a database. FreeReserved
// only logs failures, because the table may not exist, and because the agent repairs the table later anyway.
func FreeReserved(ctx context.Context) {
	own, err := net.InterfaceAddrs()
	if err != nil {
		ctrl.Log.Error(err, "cannot list this host's addresses; not removing translations of reserved ports")
		return
	}
	table := reserved.Table{Ports: reserved.Defaults(), Nodes: map[netip.Addr]string{}}
	for _, address := range own {
		if prefix, err := netip.ParsePrefix(address.String()); err == nil {
			table.Nodes[prefix.Addr().Unmap()] = ""
		}
	}
	removed, err := (&nftables.Table{}).Free(ctx, table)
	if err != nil {
		ctrl.Log.Error(err, "cannot remove translations of reserved ports; continuing")
	}
	if removed > 0 {
		ctrl.Log.Info("removed translations of reserved ports", "count", removed)
	}
}
