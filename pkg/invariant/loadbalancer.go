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
		{"BalancerAnswersOnce", "One node answers for a LoadBalancerPool's address, by its router or its host: its status' node.",
			balancerAnswersOnce},
	}
}

// balancerAnswersOnce compares the routers' rows, and the sets of nodes in Local mode, with the status.
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
	sets := map[string][]string{}
	for _, set := range rowsIn[nbdb.AddressSet](v.Northbound, nbdb.AddressSetTable) {
		sets[set.Name] = set.Addresses
	}
	hosts := map[string]bool{}
	for node := range v.networks {
		for _, family := range []string{"IPv4", "IPv6"} {
			addresses, ok := sets[names.AnsweredAddresses(node, family)]
			hosts[node] = hosts[node] || ok
			for _, address := range addresses { // an element has no owner
				have[fmt.Sprint("host ", address, " ", node)] = true
			}
		}
	}
	for key, pool := range v.balancers {
		for _, a := range pool.Status.Announcements {
			if routers[a.Node] {
				want[fmt.Sprint(key, " ", a.Address, " ", a.Node)] = true
			} else if hosts[a.Node] {
				want[fmt.Sprint("host ", a.Address, " ", a.Node)] = true
			}
		}
	}
	return differing("address at a router or a host (pool or host, address, node)", want, have)
}
