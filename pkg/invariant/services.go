package invariant

import (
	"fmt"
	"slices"

	"github.com/weft-network/weft/pkg/names"
	"github.com/weft-network/weft/pkg/nbdb"
)

// serviceInvariants are those of services.
func serviceInvariants() []Invariant {
	return []Invariant{
		{"BalancerOnEveryNode", "Every load balancer of Weft is in the group of the cluster's load balancers, and every node's switch has that group.", balancerOnEveryNode},
	}
}

func balancerOnEveryNode(v *view) (found []Violation) {
	group := &nbdb.LoadBalancerGroup{}
	for _, g := range rowsIn[nbdb.LoadBalancerGroup](v.Northbound, nbdb.LoadBalancerGroupTable) {
		if g.Name == names.ClusterLoadBalancers {
			group = g
		}
	}
	for _, lb := range rowsIn[nbdb.LoadBalancer](v.Northbound, nbdb.LoadBalancerTable) {
		if ours(lb) && !slices.Contains(group.LoadBalancer, lb.UUID) {
			found = append(found, v.about([]any{lb}, "load balancer %s is not in the group %s", lb.Name, names.ClusterLoadBalancers))
		}
	}
	for _, node := range v.served() {
		for _, s := range v.switches {
			if s.Name == names.NodeSwitch(node.Name) && ours(s) && !slices.Contains(s.LoadBalancerGroup, group.UUID) {
				found = append(found, aboutNode(node.Name, Violation{Message: fmt.Sprintf("switch %s has not the group %s", s.Name, names.ClusterLoadBalancers)}))
			}
		}
	}
	return found
}
