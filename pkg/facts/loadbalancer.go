package facts

import (
	"net/netip"

	discoveryv1 "k8s.io/api/discovery/v1"
)

// LoadBalancerPool holds the facts for topology.LoadBalancerPoolUnit.
type LoadBalancerPool struct {
	Name      string
	Announced []AnnouncedAddress
}

// AnnouncedAddress is an address of a load balancer, and the node that answers for it: its gateway router, or its host.
type AnnouncedAddress struct {
	Address netip.Addr
	Node    string
	ByHost  bool
}

// NodesWithEndpoints returns the nodes with a ready endpoint of a service, or with an endpoint that serves while it ends if
// no endpoint is ready.
func NodesWithEndpoints(endpoints []discoveryv1.EndpointSlice) map[string]bool {
	ready, ending := map[string]bool{}, map[string]bool{}
	for i := range endpoints {
		if forOthers(endpoints[i].Labels) {
			continue
		}
		for _, e := range endpoints[i].Endpoints {
			switch {
			case e.NodeName == nil:
			case isTrue(e.Conditions.Ready, true):
				ready[*e.NodeName] = true
			case endsAndServes(e.Conditions):
				ending[*e.NodeName] = true
			}
		}
	}
	if len(ready) == 0 {
		return ending
	}
	return ready
}

// ReadyOn returns the number of ready endpoints of a service on a node. A pod counts once, whatever its addresses are.
func ReadyOn(endpoints []discoveryv1.EndpointSlice, node string) int {
	found := map[string]bool{}
	for i := range endpoints {
		if forOthers(endpoints[i].Labels) {
			continue
		}
		for _, e := range endpoints[i].Endpoints {
			if e.NodeName == nil || *e.NodeName != node || !isTrue(e.Conditions.Ready, true) || len(e.Addresses) == 0 {
				continue
			}
			if ref := e.TargetRef; ref != nil {
				found[ref.Kind+" "+ref.Namespace+"/"+ref.Name] = true
			} else {
				found[e.Addresses[0]] = true
			}
		}
	}
	return len(found)
}
