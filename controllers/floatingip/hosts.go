package floatingip

import (
	"context"
	"net/netip"

	"github.com/weft-network/weft/controllers/kind"
	"github.com/weft-network/weft/pkg/addresses/floating"
	"github.com/weft-network/weft/pkg/facts"
)

// hosts returns the addresses outside the cluster that a pool on a segment must not have: the addresses of machines there, and of all
// hosts of a node's network. A pod with such an address would receive the machine's packets.
func (r *Pools) hosts(ctx context.Context, pool floating.Pool) (taken []floating.Taken, err error) {
	hosts, err := kind.SegmentHosts(ctx, r.Client)
	for _, host := range hosts {
		taken = append(taken, takenBy(host.Address, host.Of))
		if !host.Link.IsValid() {
			continue
		}
		network := host.Link.Masked()
		for _, a := range []netip.Addr{network.Addr(), floating.Of(network).Last} {
			if _, has := pool.SegmentOf(a); has && facts.IsOfAll(host.Link, a) {
				taken = append(taken, takenBy(a, "all hosts of "+network.String()+", the network of the link outside of "+host.Of))
			}
		}
	}
	return taken, err
}
