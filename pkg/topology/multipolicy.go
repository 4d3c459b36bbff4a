package topology

import (
	"maps"

	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/ovn/names"
	"github.com/weft-network/weft/pkg/unit"
)

// MultiNetworkPolicyUnit returns a unit with a policy's ACLs for the pods' ports on each of its Networks. The groups
// and sets are as for NetworkPolicyUnit, with those ports and their addresses. A pod's node has no port on a Network,
// so no ACL allows it.
func MultiNetworkPolicyUnit(p facts.MultiNetworkPolicy) unit.Unit {
	u := unit.Unit{Key: MultiNetworkPolicyKey(p.Namespace, p.Name)}
	for _, network := range p.Networks {
		on := p.On(network)
		b := policyBuilder{subject: on.Subject, name: func(text string) string {
			return names.MultiPolicyACL(p.Namespace, p.Name, text)
		}, unit: unit.Unit{Key: u.Key}, logging: p.Logging, network: network}
		b.addSides(on)
		u.Rows, u.Members = append(u.Rows, b.unit.Rows...), append(u.Members, b.unit.Members...)
	}
	return u
}

// MultiNetworkPolicySelectors returns the groups and sets that the policy's ACLs name, by their units.
func MultiNetworkPolicySelectors(p facts.MultiNetworkPolicy) map[unit.Key]facts.PodSelector {
	all := map[unit.Key]facts.PodSelector{}
	for _, network := range p.Networks {
		maps.Copy(all, NetworkPolicySelectors(p.On(network)))
	}
	return all
}
