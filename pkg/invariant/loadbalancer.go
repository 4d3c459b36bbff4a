package invariant

import (
	"fmt"
	"strings"

	"github.com/weft-network/weft/pkg/ovn/names"
	"github.com/weft-network/weft/pkg/ovn/nbdb"
	"github.com/weft-network/weft/pkg/topology"
)

// loadBalancerInvariants returns the invariants of LoadBalancerPools.
func loadBalancerInvariants() []Invariant {
	return []Invariant{
		{"BalancerAnswersOnce", "One router answers for a LoadBalancerPool's address: its status' node.", balancerAnswersOnce},
	}
}

// balancerAnswersOnce compares the routers' rows with the status, for nodes that have a router.
func balancerAnswersOnce(v *view) (found []Violation) {
	nats := byUUID(rowsIn[nbdb.NAT](v.Northbound, nbdb.NATTable))
	routers, have, want := map[string]bool{}, map[string]bool{}, map[string]bool{} // "loadbalancerpool/a 192.0.2.7 n1"
	for _, router := range v.routers {
		node, gateway := strings.CutPrefix(router.Name, names.GatewayRouter(""))
		routers[node] = gateway
		for _, id := range router.Nat {
			if nat := nats[id]; nat != nil && ownerOf(nat).Kind() == topology.KindLoadBalancerPool {
				have[fmt.Sprint(ownerOf(nat), " ", nat.ExternalIP, " ", node)] = true
			}
		}
	}
	for key, pool := range v.balancers {
		for _, a := range pool.Status.Announcements {
			if routers[a.Node] {
				want[fmt.Sprint(key, " ", a.Address, " ", a.Node)] = true
			}
		}
	}
	return differing("address at a router (pool, address, node)", want, have)
}
