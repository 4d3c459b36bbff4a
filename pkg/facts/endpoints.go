package facts

import (
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
)

// entry is what a slice says of a backend.
type entry struct {
	Backend
	runs bool // it does not terminate
	used bool // it is ready, or serves while it terminates
}

// precedes reports whether an entry counts instead of another one with the same address and port. The address of a pod that terminates
// may already belong to another pod.
func (e entry) precedes(other entry) bool {
	if e.runs != other.runs {
		return e.runs
	}
	return e.used && (!other.used || other.Ending && !e.Ending)
}

// backends returns the endpoints of a port that are ready, or that still serve while they terminate, without
// duplicates.
func backends(endpoints []discoveryv1.EndpointSlice, port string, protocol corev1.Protocol) (found []Backend, problems []string) {
	entries := map[netip.AddrPort]entry{}
	for i := range endpoints {
		number, ok := portOf(&endpoints[i], port, protocol)
		if !ok || isHeadless(&endpoints[i]) {
			continue
		}
		for _, endpoint := range endpoints[i].Endpoints {
			if len(endpoint.Addresses) == 0 {
				continue
			}
			// all addresses of an endpoint belong to the same pod (API of discovery/v1)
			address, err := addressOf(endpoint.Addresses[0])
			if err != nil {
				problems = append(problems, fmt.Sprintf("EndpointSlice %s: %q is not an IP address", endpoints[i].Name,
					endpoint.Addresses[0]))
				continue
			}
			ready := isTrue(endpoint.Conditions.Ready, true)
			e := entry{backendOf(endpoint, netip.AddrPortFrom(address, number), !ready), !isTrue(endpoint.Conditions.Terminating, false),
				ready || endsAndServes(endpoint.Conditions)}
			if known, ok := entries[e.AddrPort]; !ok || e.precedes(known) {
				entries[e.AddrPort] = e
			}
		}
	}
	for _, e := range entries {
		if e.used {
			found = append(found, e.Backend)
		}
	}
	slices.SortFunc(found, func(a, b Backend) int { return a.Compare(b.AddrPort) })
	return found, problems
}

func backendOf(endpoint discoveryv1.Endpoint, address netip.AddrPort, ending bool) Backend {
	b := Backend{AddrPort: address, Ending: ending}
	if endpoint.NodeName != nil {
		b.Node = *endpoint.NodeName
	}
	if endpoint.Hints != nil {
		for _, zone := range endpoint.Hints.ForZones {
			b.ForZones = append(b.ForZones, zone.Name)
		}
		for _, node := range endpoint.Hints.ForNodes {
			b.ForNodes = append(b.ForNodes, node.Name)
		}
	}
	return b
}

// portOf returns the number of a port in a slice of IP addresses.
func portOf(endpoints *discoveryv1.EndpointSlice, name string, protocol corev1.Protocol) (number uint16, ok bool) {
	if endpoints.AddressType == discoveryv1.AddressTypeFQDN {
		return 0, false
	}
	for _, p := range endpoints.Ports {
		sameName := p.Name == nil && name == "" || p.Name != nil && *p.Name == name
		sameProtocol := p.Protocol == nil && protocol == corev1.ProtocolTCP || p.Protocol != nil && *p.Protocol == protocol
		if sameName && sameProtocol && p.Port != nil && *p.Port > 0 && *p.Port < 1<<16 {
			return uint16(*p.Port), true
		}
	}
	return 0, false
}

func endsAndServes(c discoveryv1.EndpointConditions) bool {
	return isTrue(c.Terminating, false) && isTrue(c.Serving, true)
}

func isTrue(condition *bool, unset bool) bool {
	if condition == nil {
		return unset
	}
	return *condition
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
