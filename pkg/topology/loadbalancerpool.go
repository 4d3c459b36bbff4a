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
// routers, so a translation that no packet matches marks the address as this router's. ovn-controller announces it. In Local mode
// the node's agent makes the host answer for the addresses in the node's set.
func LoadBalancerPoolUnit(read facts.LoadBalancerPool) unit.Unit {
	u := unit.Unit{Key: LoadBalancerPoolKey(read.Name)}
	for _, a := range read.Announced {
		text := a.Address.String()
		if a.ByHost {
			u.Members = append(u.Members, answeredByHost(a))
			continue
		}
		addNAT(&u, names.GatewayRouter(a.Node), &nbdb.NAT{UUID: unit.UUID(nbdb.NATTable, "loadbalancer "+text), Type: nbdb.NATTypeSNAT,
			ExternalIP: text, LogicalIP: text, Match: ovnexpr.Never})
	}
	for _, a := range read.Former { // the set of a node whose agent has not reported stays, and would make two nodes answer
		u.Left = append(u.Left, answeredByHost(a))
	}
	return u
}

func answeredByHost(a facts.AnnouncedAddress) unit.Membership {
	set := addressSetRef(names.AnsweredAddresses(a.Node, names.Family(a.Address)))
	return unit.Membership{Parent: set, Column: "addresses", Element: a.Address.String()}
}
