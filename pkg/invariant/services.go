package invariant

import (
	"fmt"
	"slices"
	"strings"

	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/ovn/names"
	"github.com/weft-network/weft/pkg/ovn/nbdb"
)

// serviceInvariants returns the invariants of services.
func serviceInvariants() []Invariant {
	return []Invariant{
		{"BalancerOnEveryNode", "Every load balancer of Weft is in a group of balancers, or belongs to one switch or router.",
			balancerOnEveryNode},
		{"ReservedIsFree", "No load balancer of Weft has a VIP at a reserved port.", reservedIsFree},
	}
}

func balancerOnEveryNode(v *view) (found []Violation) {
	groups := map[string]*nbdb.LoadBalancerGroup{names.ClusterLoadBalancers: {}, names.SwitchLoadBalancers: {},
		names.RouterLoadBalancers: {}}
	in := map[string]bool{}    // load balancers in a group, or of one switch or router
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
		add(in, g.LoadBalancer)
	}
	for _, s := range v.switches {
		add(in, s.LoadBalancer)
	}
	routers := map[string]bool{} // by name
	for _, r := range rowsIn[nbdb.LogicalRouter](v.Northbound, nbdb.LogicalRouterTable) {
		add(in, r.LoadBalancer)
		routers[r.Name] = true
	}
	waits := func(name string) bool { // for the only switch or router that it belongs to
		node := names.BalancerNode(name)
		ofRouter := strings.HasSuffix(name, names.OfNode(string(facts.ReachRouters), node))
		return node != "" && (!nodes[names.NodeLoadBalancers(node)] || ofRouter && !routers[names.GatewayRouter(node)])
	}
	for _, lb := range rowsIn[nbdb.LoadBalancer](v.Northbound, nbdb.LoadBalancerTable) {
		if ours(lb) && !in[lb.UUID] && !waits(lb.Name) {
			found = append(found, v.about([]any{lb},
				"load balancer %s is in none of the groups %s, %s and %s, and no node's switch or router has it", lb.Name,
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

func add(to map[string]bool, all []string) {
	for _, one := range all {
		to[one] = true
	}
}
