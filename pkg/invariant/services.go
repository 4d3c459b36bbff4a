package invariant

import (
	"fmt"
	"slices"

	"github.com/weft-network/weft/pkg/ovn/names"
	"github.com/weft-network/weft/pkg/ovn/nbdb"
)

// serviceInvariants returns the invariants of services.
func serviceInvariants() []Invariant {
	return []Invariant{
		{"BalancerOnEveryNode", "Every load balancer of Weft is in a group of balancers.", balancerOnEveryNode},
		{"ReservedIsFree", "No load balancer of Weft has a VIP at a reserved port.", reservedIsFree},
	}
}

func balancerOnEveryNode(v *view) (found []Violation) {
	groups := map[string]*nbdb.LoadBalancerGroup{names.ClusterLoadBalancers: {}, names.SwitchLoadBalancers: {},
		names.RouterLoadBalancers: {}}
	in := map[string]bool{}    // load balancers in a group
	nodes := map[string]bool{} // names of the groups of nodes
	for _, node := range v.served() {
		nodes[names.NodeLoadBalancers(node.Name)] = true
	}
	for _, g := range rowsIn[nbdb.LoadBalancerGroup](v.Northbound, nbdb.LoadBalancerGroupTable) {
		if groups[g.Name] != nil {
			groups[g.Name] = g
		} else if !nodes[g.Name] {
			continue
		}
		for _, lb := range g.LoadBalancer {
			in[lb] = true
		}
	}
	for _, lb := range rowsIn[nbdb.LoadBalancer](v.Northbound, nbdb.LoadBalancerTable) {
		if ours(lb) && !in[lb.UUID] {
			found = append(found, v.about([]any{lb},
				"load balancer %s is in none of the groups %s, %s and %s, and in no node's group", lb.Name,
				names.ClusterLoadBalancers, names.SwitchLoadBalancers, names.RouterLoadBalancers))
		}
	}
	for _, node := range v.served() {
		for _, s := range v.switches {
			for _, group := range []string{names.ClusterLoadBalancers, names.SwitchLoadBalancers} {
				if s.Name == names.NodeSwitch(node.Name) && ours(s) && !slices.Contains(s.LoadBalancerGroup, groups[group].UUID) {
					found = append(found, aboutNode(node.Name,
						Violation{Message: fmt.Sprintf("switch %s does not have the group %s", s.Name, group)}))
				}
			}
		}
	}
	return found
}
