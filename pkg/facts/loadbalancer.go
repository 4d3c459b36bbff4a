package facts

import (
	"net/netip"

	corev1 "k8s.io/api/core/v1"
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
		if isHeadless(&endpoints[i]) {
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

// ReadyOn returns the numbers of IPv4 and IPv6 addresses at which a service has ready endpoints on a node.
func ReadyOn(endpoints []discoveryv1.EndpointSlice, node string) (ipv4, ipv6 int) {
	type port struct {
		name     string
		protocol corev1.Protocol
	}
	ports := map[port]bool{} // each port once, because backends reads all slices
	for i := range endpoints {
		for _, p := range endpoints[i].Ports {
			key := port{"", TCP}
			if p.Name != nil {
				key.name = *p.Name
			}
			if p.Protocol != nil {
				key.protocol = *p.Protocol
			}
			ports[key] = true
		}
	}
	found := map[netip.Addr]bool{}
	for p := range ports {
		all, _ := backends(endpoints, p.name, p.protocol)
		for _, b := range all {
			if b.Node == node && !b.Ending {
				found[b.Addr()] = true
			}
		}
	}
	for address := range found {
		if address.Is4() {
			ipv4++
		} else {
			ipv6++
		}
	}
	return ipv4, ipv6
}
