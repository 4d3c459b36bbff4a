package facts

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/ipam"
	"github.com/weft-network/weft/pkg/reserved"
)

// ReservedPorts returns ClusterNetwork's reservedPorts.
func ReservedPorts(ports []networkv1alpha1.ReservedPort) []reserved.Port {
	found := make([]reserved.Port, 0, len(ports))
	for _, p := range ports {
		found = append(found, reserved.Port{Protocol: strings.ToLower(string(p.Protocol)), Number: uint16(p.Port),
			Owner: cmp.Or(p.Owner, "ClusterNetwork's spec.reservedPorts")})
	}
	return found
}

// Exposed reports whether a service has an address or a port that is reachable from outside the cluster's own
// networks.
func Exposed(service *corev1.Service) bool {
	return len(NodePorts(service)) > 0 || len(ExternalAddresses(service)) > 0
}

// ExternalAddresses returns the addresses that a service is balanced on without its cluster IPs and without
// duplicates.
func ExternalAddresses(service *corev1.Service) []netip.Addr {
	return slices.DeleteFunc(ServiceAddresses(service), func(a netip.Addr) bool { return isClusterIP(service, a) })
}

// NodePorts returns the node ports of a service in NodePort's notation.
func NodePorts(service *corev1.Service) (found []string) {
	if !Balanced(service) {
		return nil
	}
	for _, port := range service.Spec.Ports {
		if port.NodePort != 0 {
			found = append(found, NodePort(port.Protocol, uint16(port.NodePort)))
		}
	}
	return found
}

// NodePort formats a port of nodes: "TCP/30080". The default protocol is TCP.
func NodePort(protocol corev1.Protocol, number uint16) string {
	if protocol == "" {
		protocol = corev1.ProtocolTCP
	}
	return fmt.Sprintf("%s/%d", protocol, number)
}

// Refuse removes the VIPs of a service whose destination is reserved. It returns a sentence for each, which names the
// owner. Cluster IPs stay: the API server allocates them from networks that belong to no one else.
func (s *Service) Refuse(service *corev1.Service, table reserved.Table) (refused []string) {
	for i := range s.Ports {
		port := &s.Ports[i]
		port.VIPs = slices.DeleteFunc(port.VIPs, func(vip VIP) bool {
			text, owner, isReserved := vip.reservedFor(service, port.Protocol, table)
			if text = fmt.Sprintf("%s is reserved for %s", text, owner); isReserved && !slices.Contains(refused, text) {
				refused = append(refused, text)
			}
			return isReserved
		})
	}
	return refused
}

// YieldToPools removes the VIPs whose address belongs to an IPPool. poolOf returns the IPPool's name, or "". It returns a
// sentence for each, which names the IPPool. Cluster IPs and node ports stay.
func (s *Service) YieldToPools(service *corev1.Service, poolOf func(netip.Addr) string) (refused []string) {
	for i := range s.Ports {
		port := &s.Ports[i]
		port.VIPs = slices.DeleteFunc(port.VIPs, func(vip VIP) bool {
			if vip.OnNode() || isClusterIP(service, vip.Addr()) {
				return false
			}
			pool := poolOf(vip.Addr())
			if text := fmt.Sprintf("%s %s is reserved for IPPool %s", port.Protocol, vip, pool); pool != "" && !slices.Contains(refused, text) {
				refused = append(refused, text)
			}
			return pool != ""
		})
	}
	return refused
}

// reservedFor returns the VIP in the user's notation, and its owner.
func (v VIP) reservedFor(service *corev1.Service, protocol corev1.Protocol, table reserved.Table) (text, owner string, isReserved bool) {
	switch {
	case v.OnNode() || slices.Contains(ipam.LocalNodePorts(), v.Addr()):
		owner, isReserved = table.OnNodes(string(protocol), v.Port())
		return fmt.Sprintf("node port %s", NodePort(protocol, v.Port())), owner, isReserved
	case isClusterIP(service, v.Addr()):
		return "", "", false
	}
	owner, isReserved = table.At(v.AddrPort, string(protocol))
	return fmt.Sprintf("%s %s", protocol, v), owner, isReserved
}

// RefuseHostPorts returns the host ports that a pod gets, and a sentence for each refused host port. A host port is
// refused if it is reserved, or if holder returns words for another object that has it. table.Nodes are the addresses
// of the pod's own node.
func RefuseHostPorts(ports []HostPort, table reserved.Table, holder func(HostPort) string) (kept []HostPort, refused []string) {
	for _, port := range ports {
		text := NodePort(port.Protocol, port.Port)
		if owner, isReserved := table.OnNodes(string(port.Protocol), port.Port); isReserved {
			refused = append(refused, fmt.Sprintf("host port %s is reserved for %s", text, owner))
		} else if other := holder(port); other != "" {
			refused = append(refused, fmt.Sprintf("host port %s is %s", text, other))
		} else {
			kept = append(kept, port)
		}
	}
	return kept, refused
}

// NodePortHolder returns words for the service whose node port a host port is; empty: none. services maps node ports,
// in NodePort's notation, to the service's namespace and name. Node ports are not served at the host's loopback address.
func NodePortHolder(port HostPort, services map[string]string) string {
	service := services[NodePort(port.Protocol, port.Port)]
	if service == "" || port.Address.IsLoopback() {
		return ""
	}
	return "the node port of service " + service
}

// EndpointDestinations returns the addresses and ports of a slice's endpoints, whether or not they are ready.
func EndpointDestinations(slice *discoveryv1.EndpointSlice, owner string) (found []reserved.Destination) {
	for _, endpoint := range slice.Endpoints {
		for _, text := range endpoint.Addresses {
			address, err := netip.ParseAddr(text)
			if err != nil {
				continue
			}
			for _, p := range slice.Ports {
				if p.Port == nil {
					continue
				}
				protocol := corev1.ProtocolTCP
				if p.Protocol != nil {
					protocol = *p.Protocol
				}
				port := reserved.Port{Protocol: strings.ToLower(string(protocol)), Number: uint16(*p.Port), Owner: owner}
				found = append(found, reserved.Destination{Port: port, Address: address.Unmap()})
			}
		}
	}
	return found
}
