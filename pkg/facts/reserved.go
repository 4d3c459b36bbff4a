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
	"github.com/weft-network/weft/pkg/ipam/reserved"
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

// ExternalIPs returns the addresses of spec.externalIPs that a service is balanced on, unless its load balancer has them, too. The
// service's user chose them.
func ExternalIPs(service *corev1.Service) []netip.Addr {
	given := balancerAddresses(service)
	return slices.DeleteFunc(ExternalAddresses(service), func(a netip.Addr) bool { return slices.Contains(given, a) })
}

// ExternalPorts returns the ports of a service with external IPs, in NodePort's notation.
func ExternalPorts(service *corev1.Service) (found []string) {
	if len(ExternalIPs(service)) == 0 {
		return nil
	}
	for _, port := range service.Spec.Ports {
		found = append(found, NodePort(port.Protocol, uint16(port.Port)))
	}
	return found
}

// NodePorts returns the node ports of a service in NodePort's notation, with that of its health checks.
func NodePorts(service *corev1.Service) (found []string) {
	if !Balanced(service) {
		return nil
	}
	for _, port := range service.Spec.Ports {
		if port.NodePort != 0 {
			found = append(found, NodePort(port.Protocol, uint16(port.NodePort)))
		}
	}
	if port := healthCheckPort(service); port != 0 {
		found = append(found, NodePort(corev1.ProtocolTCP, uint16(port)))
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
// owner. The service's own cluster IPs stay: the API server allocates them from networks that belong to no one else.
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

// YieldTo removes the VIPs whose address belongs to an object of another kind. owner returns that object, "IPPool web", or "". YieldTo
// returns a sentence for each, which names the object. Cluster IPs and node ports stay.
func (s *Service) YieldTo(service *corev1.Service, owner func(netip.Addr) string) (refused []string) {
	for i := range s.Ports {
		port := &s.Ports[i]
		port.VIPs = slices.DeleteFunc(port.VIPs, func(vip VIP) bool {
			if vip.OnNode() || isClusterIP(service, vip.Addr()) {
				return false
			}
			of := owner(vip.Addr())
			if text := fmt.Sprintf("%s %s is reserved for %s", port.Protocol, vip, of); of != "" && !slices.Contains(refused, text) {
				refused = append(refused, text)
			}
			return of != ""
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

// RefuseHostPorts returns the host ports that a pod of a node gets, and a sentence for each refused host port. A host port is
// refused if it is reserved, if holder returns words for another object that has it, or if its address is neither a loopback
// address nor the node's by table.Nodes.
func RefuseHostPorts(node string, ports []HostPort, table reserved.Table, holder func(HostPort) string) (
	kept []HostPort, refused []string,
) {
	for _, port := range ports {
		text := NodePort(port.Protocol, port.Port)
		if of, known := table.Nodes[port.Address]; port.Address.IsValid() && !port.Address.IsLoopback() && !(known && of == node) {
			refused = append(refused, fmt.Sprintf("host port %s is not served at %s, which is no address of node %s", text, port.Address, node))
		} else if owner, isReserved := table.OnNodes(string(port.Protocol), port.Port); isReserved {
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

// The ports of BFD (RFC 5881 §4, RFC 5883 §5).
const (
	bfdPort         = 3784
	bfdMultiHopPort = 4784
)

// PeerDestinations returns what a BGPPeer's sessions of BGP and BFD need.
func PeerDestinations(name string, peer netip.Addr, port uint16, bfd bool) []reserved.Destination {
	owner := "BGPPeer " + name
	found := []reserved.Destination{{Port: reserved.Port{Protocol: "tcp", Number: port, Owner: owner}, Address: peer}}
	if bfd {
		found = append(found, bfdDestination(peer, bfdPort, owner), bfdDestination(peer, bfdMultiHopPort, owner))
	}
	return found
}

// HopDestinations returns what the BFD sessions with routers of an ExternalRoute need. owner names it.
func HopDestinations(owner string, watched ...netip.Addr) (found []reserved.Destination) {
	for _, address := range watched {
		found = append(found, bfdDestination(address, bfdPort, owner))
	}
	return found
}

func bfdDestination(address netip.Addr, port uint16, owner string) reserved.Destination {
	return reserved.Destination{Port: reserved.Port{Protocol: "udp", Number: port, Owner: "BFD of " + owner}, Address: address}
}

// WatchedHops returns the routers that an ExternalRoute watches by BFD, by its spec and by its status.
func WatchedHops(e *networkv1alpha1.ExternalRoute) (found []netip.Addr) {
	for _, hop := range e.Spec.NextHops.Static {
		if address, err := netip.ParseAddr(string(hop.Address)); err == nil && hop.BFD {
			found = append(found, address)
		}
	}
	for _, hop := range e.Status.NextHops {
		if address, err := hop.Address.Addr(); err == nil && hop.BFD {
			found = append(found, address)
		}
	}
	slices.SortFunc(found, netip.Addr.Compare)
	return slices.Compact(found)
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
