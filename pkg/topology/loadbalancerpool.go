package topology

import (
	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/ovn/names"
	"github.com/weft-network/weft/pkg/ovn/nbdb"
	"github.com/weft-network/weft/pkg/ovn/ovnexpr"
	"github.com/weft-network/weft/pkg/unit"
)

// LoadBalancerPoolKey returns the unit of a LoadBalancerPool.
func LoadBalancerPoolKey(name string) unit.Key { return unit.NewKey(KindLoadBalancerPool, name) }

// LoadBalancerPoolUnit returns a unit that makes one gateway router answer ARP and neighbour discovery for each
// address. The balancers of the Services are on every router. Their own option neighbor_responder applies to all
// routers, so a translation that no packet matches marks the address as this router's. The node's agent announces the addresses in the
// node's set, and in Local mode makes the host answer for them.
func LoadBalancerPoolUnit(read facts.LoadBalancerPool) unit.Unit {
	u := unit.Unit{Key: LoadBalancerPoolKey(read.Name)}
	for _, a := range read.Announced {
		text := a.Address.String()
		if a.ByHost {
			u.Members = append(u.Members, answeredByHost(a))
			continue
		}
		u.Members = append(u.Members, answeredByRouter(a))
		addNAT(&u, names.GatewayRouter(a.Node), &nbdb.NAT{UUID: unit.UUID(nbdb.NATTable, "loadbalancer "+text), Type: nbdb.NATTypeSNAT,
			ExternalIP: text, LogicalIP: text, Match: ovnexpr.Never})
	}
	for _, a := range read.Former { // the set of a node whose agent has not reported stays, and would make two nodes answer
		u.Left = append(u.Left, answeredByHost(a), answeredByRouter(a))
	}
	return u
}

func answeredByHost(a facts.AnnouncedAddress) unit.Membership {
	return inSet(names.AnsweredAddresses(a.Node, names.Family(a.Address)), a.Address)
}

func answeredByRouter(a facts.AnnouncedAddress) unit.Membership {
	return inSet(names.RouterAddresses(a.Node, names.Family(a.Address)), a.Address)
}
