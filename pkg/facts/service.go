package facts

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"net/netip"
	"slices"
	"strings"

	"go4.org/netipx"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	utilnet "k8s.io/utils/net"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/ipam"
	"github.com/weft-network/weft/pkg/ovn/names"
)

// Protocol is a transport protocol in Kubernetes' spelling.
type Protocol = corev1.Protocol

// The protocols that services and policies have.
const (
	TCP  = corev1.ProtocolTCP
	UDP  = corev1.ProtocolUDP
	SCTP = corev1.ProtocolSCTP
)

// Service holds the facts for topology.ServiceUnit.
type Service struct {
	Namespace, Name string
	// AffinityTimeout is how long, in seconds, a client without a new connection keeps its backend: 1 to 86400. With 0, each
	// connection is balanced again.
	AffinityTimeout int
	// Turn counts the periods of AffinityTurn. With each turn, clients that are balanced again get another backend.
	Turn  int
	Ports []ServicePort
	// ClusterIPs refuse packets for ports other than Ports.
	ClusterIPs []netip.Addr
	// Sources are the only clients outside that may connect to Limited VIPs. Nil means all, and an empty list means none.
	Sources []netip.Prefix
	// HealthCheckPort is the port at which nodes report whether they have ready endpoints, or 0.
	HealthCheckPort int32
	// Idle services report connections while they have no backend.
	Idle bool
	// Nodes are the nodes on which the backends may differ. They are needed only for VIPs that are not FromAll, and for
	// each node's own address with affinity.
	Nodes []ServiceNode
}

// ServiceNode is the part of a node that services need.
type ServiceNode struct {
	Name, Chassis, Zone string
	// Addresses are the node's own addresses, at most one per family. Only services with affinity and node ports need them.
	Addresses []netip.Addr
}

// ServicePort is one port of a service, on all its addresses.
type ServicePort struct {
	Protocol Protocol
	Number   uint16
	// NodePort is 0 without a node port.
	NodePort uint16
	// VIPs are the destinations of clients, Backends the endpoints of both families. A VIP uses the backends of its
	// own family.
	VIPs     []VIP
	Backends []Backend
}

// SourcesAt returns the only clients outside that may connect to a VIP. Nil means all, and an empty list means none.
func (s Service) SourcesAt(v VIP) []netip.Prefix {
	if !v.Limited {
		return nil
	}
	return s.Sources
}

// VIP is an address and a port that clients connect to. The unspecified address represents each node's own address.
type VIP struct {
	netip.AddrPort
	Reach Reach
	From  Choice
	// Limited reports whether only the service's Sources may connect from outside. It is set at addresses of load balancers.
	Limited bool
}

// OnNode reports whether the VIP is each node's own address.
func (v VIP) OnNode() bool { return v.Addr().IsUnspecified() }

// Reach selects the clients that a VIP serves.
type Reach string

// Pods and hosts send through the switches of nodes, clients outside through gateway routers.
const (
	ReachAll      Reach = "cluster"
	ReachSwitches Reach = "node_switch"
	ReachRouters  Reach = "node_router"
)

// Choice selects the backends that a VIP may use.
type Choice string

const (
	// FromAll uses all backends.
	FromAll Choice = "all"
	// FromNear uses the backends with a hint for the node or its zone, or else all backends.
	FromNear Choice = "near"
	// FromLocal uses the backends on the same node. Without such backends, packets are dropped.
	FromLocal Choice = "local"
)

// Backend is an endpoint that serves.
type Backend struct {
	netip.AddrPort
	// Ending backends still serve, and are used only if no other backend exists.
	Ending bool
	// Node is the node of the backend, or "" if it is unknown.
	Node string
	// ForNodes and ForZones are the hints of an EndpointSlice.
	ForNodes, ForZones []string
}

// Balanced reports whether Weft balances a service. A headless service has no address and an external name uses DNS.
// Services that are labelled for another proxy are left to it.
func Balanced(service *corev1.Service) bool {
	_, proxied := service.Labels[names.ServiceProxyLabel]
	return !proxied && service.Spec.Type != corev1.ServiceTypeExternalName &&
		len(service.Spec.ClusterIPs) > 0 && service.Spec.ClusterIPs[0] != corev1.ClusterIPNone
}

// isHeadless reports whether a slice has the label of endpoints that are not balanced.
func isHeadless(slice *discoveryv1.EndpointSlice) bool {
	_, headless := slice.Labels[corev1.IsHeadlessService]
	return headless
}

// ParseService reads a service and its slices. nodes are needed if PerNode returns true. Values that the API server
// accepts but that are unreadable are left out, and problems names their field and value.
func ParseService(service *corev1.Service, endpoints []discoveryv1.EndpointSlice, nodes []ServiceNode) (parsed Service,
	problems []string) {
	parsed = Service{Namespace: service.Namespace, Name: service.Name, Nodes: nodes}
	if !Balanced(service) {
		return parsed, nil
	}
	addresses, problems := virtualAddresses(service)
	parsed.ClusterIPs, parsed.HealthCheckPort = clusterIPs(service), healthCheckPort(service)
	parsed.AffinityTimeout, parsed.Idle = affinityTimeout(service), service.Annotations[networkv1alpha1.IdleAnnotation] == "true"
	var wrong []string
	parsed.Sources, wrong = sources(service)
	problems = append(problems, wrong...)
	for _, port := range service.Spec.Ports {
		p := ServicePort{Protocol: cmp.Or(port.Protocol, TCP), Number: uint16(port.Port), NodePort: uint16(port.NodePort)}
		p.Backends, wrong = backends(endpoints, port.Name, p.Protocol)
		problems = append(problems, wrong...)
		near := preferred(p.Backends)
		for _, address := range addresses {
			p.VIPs = append(p.VIPs, addressVIPs(service, netip.AddrPortFrom(address, p.Number), near)...)
		}
		p.VIPs = append(p.VIPs, nodePortVIPs(service, port, near)...)
		parsed.Ports = append(parsed.Ports, p)
	}
	return parsed, problems
}

// sources returns the clients that may connect to a load balancer's addresses. It reads them as the API server does, which
// permits blanks, and leading zeros in old objects. What is unreadable admits nobody.
func sources(service *corev1.Service) (allowed []netip.Prefix, problems []string) {
	if len(service.Spec.LoadBalancerSourceRanges) == 0 {
		return nil, nil
	}
	var all netipx.IPSetBuilder // ranges may overlap
	for _, text := range service.Spec.LoadBalancerSourceRanges {
		if prefix, err := prefixOf(text); err == nil {
			all.AddPrefix(prefix)
		} else {
			problems = append(problems, fmt.Sprintf("spec.loadBalancerSourceRanges: %q is not a CIDR, and admits nobody", text))
		}
	}
	set, err := all.IPSet()
	if err != nil {
		return []netip.Prefix{}, append(problems, fmt.Sprintf("spec.loadBalancerSourceRanges: %v", err))
	}
	return append([]netip.Prefix{}, set.Prefixes()...), problems
}

// healthCheckPort returns the port at which load balancers check whether a node has endpoints of a service, or 0.
func healthCheckPort(service *corev1.Service) int32 {
	if service.Spec.Type != corev1.ServiceTypeLoadBalancer || !externalLocal(service) {
		return 0
	}
	return service.Spec.HealthCheckNodePort
}

// affinityTimeout returns how long a client without a new connection keeps its backend, in seconds, or 0 without affinity.
func affinityTimeout(service *corev1.Service) int {
	if service.Spec.SessionAffinity != corev1.ServiceAffinityClientIP {
		return 0
	}
	if c := service.Spec.SessionAffinityConfig; c != nil && c.ClientIP != nil {
		if seconds := c.ClientIP.TimeoutSeconds; seconds != nil && *seconds > 0 {
			return int(*seconds)
		}
	}
	return int(corev1.DefaultClientIPServiceAffinitySeconds)
}

// shortestTurn limits how often the balancers of a service with a short timeout change, in nanoseconds.
const shortestTurn = 10 * second

// second is a second in nanoseconds.
const second = 1_000_000_000

// AffinityTurn returns the number of the turn of a service with affinity at a time, in nanoseconds since 1970, and how many
// nanoseconds that turn lasts from then. It is the same in each process. Turns of different services begin at different
// times, because many changes at once would keep ovn-northd busy. Without affinity both are 0.
func AffinityTurn(service *corev1.Service, now int64) (turn int, left int64) {
	timeout := affinityTimeout(service)
	if timeout == 0 || !Balanced(service) {
		return 0, 0
	}
	length := max(int64(timeout)*second, shortestTurn)
	h := fnv.New64a()
	h.Write([]byte(service.Namespace + "/" + service.Name))
	elapsed := now + int64(h.Sum64()%uint64(length))
	return int(elapsed / length), length - elapsed%length
}

// PerNode reports whether the balancers of a service differ between nodes.
func PerNode(service *corev1.Service, endpoints []discoveryv1.EndpointSlice) bool {
	hinted := func(s discoveryv1.EndpointSlice) bool { return Hinted(&s) }
	return DiffersByNode(service) || Balanced(service) && slices.ContainsFunc(endpoints, hinted)
}

// DiffersByNode is PerNode for any endpoints. Endpoints with hints make the balancers of each other service differ.
func DiffersByNode(service *corev1.Service) bool {
	return Balanced(service) && (internal(service, FromAll) != FromAll || externalLocal(service) || remembersAtNodes(service))
}

// Hinted reports whether a slice has an endpoint with a hint for a node or zone.
func Hinted(slice *discoveryv1.EndpointSlice) bool {
	return slices.ContainsFunc(slice.Endpoints, func(e discoveryv1.Endpoint) bool {
		return e.Hints != nil && (len(e.Hints.ForNodes) > 0 || len(e.Hints.ForZones) > 0)
	})
}

// remembersAtNodes reports whether a service has affinity at the nodes' own addresses.
func remembersAtNodes(service *corev1.Service) bool {
	return affinityTimeout(service) > 0 && slices.ContainsFunc(service.Spec.Ports, func(p corev1.ServicePort) bool { return p.NodePort != 0 })
}

// ServiceNodes returns the nodes that have a chassis, in the order of their names, with what the service needs of them.
func ServiceNodes(service *corev1.Service, nodes []corev1.Node, networks []networkv1alpha1.NodeNetwork) []ServiceNode {
	byName := make(map[string]*networkv1alpha1.NodeNetwork, len(networks))
	for i := range networks {
		byName[networks[i].Name] = &networks[i]
	}
	addressed := remembersAtNodes(service)
	var found []ServiceNode
	for i := range nodes {
		node, nn := &nodes[i], byName[nodes[i].Name]
		if nn == nil || nn.Status.Chassis == "" {
			continue
		}
		one := ServiceNode{Name: node.Name, Chassis: nn.Status.Chassis, Zone: node.Labels[corev1.LabelTopologyZone]}
		if addressed {
			one.Addresses = NodePortAddresses(nn, node)
		}
		found = append(found, one)
	}
	slices.SortFunc(found, func(a, b ServiceNode) int { return strings.Compare(a.Name, b.Name) })
	return found
}

// internal returns how the traffic of pods and hosts to cluster IPs chooses backends. near is preferred's result.
func internal(service *corev1.Service, near Choice) Choice {
	if p := service.Spec.InternalTrafficPolicy; p != nil && *p == corev1.ServiceInternalTrafficPolicyLocal {
		return FromLocal
	}
	return near
}

// preferred returns how clients choose among backends where no policy requires local ones. Hints count whatever the service
// says, because the program that writes them has read the service.
func preferred(backends []Backend) Choice {
	if slices.ContainsFunc(backends, func(b Backend) bool { return len(b.ForNodes) > 0 || len(b.ForZones) > 0 }) {
		return FromNear
	}
	return FromAll
}

func externalLocal(service *corev1.Service) bool {
	return service.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal
}

// addressVIPs returns the VIPs of an address of the service. Traffic from within the cluster to an external address
// counts as internal and ignores the policy: only traffic from outside must stay on its node.
func addressVIPs(service *corev1.Service, address netip.AddrPort, near Choice) []VIP {
	limited := !isSpecial(address.Addr()) && slices.Contains(balancerAddresses(service), address.Addr())
	switch {
	case isClusterIP(service, address.Addr()):
		return []VIP{{AddrPort: address, Reach: ReachAll, From: internal(service, near)}}
	case externalLocal(service):
		return []VIP{{address, ReachSwitches, near, limited}, {address, ReachRouters, FromLocal, limited}}
	}
	return []VIP{{address, ReachAll, near, limited}}
}

// nodePortVIPs returns the VIPs of a port's node port, in the families of the service.
func nodePortVIPs(service *corev1.Service, port corev1.ServicePort, near Choice) (vips []VIP) {
	if port.NodePort == 0 {
		return nil
	}
	for i, node := range []netip.Addr{netip.IPv4Unspecified(), netip.IPv6Unspecified()} {
		if !hasFamily(service, node) {
			continue
		}
		address := netip.AddrPortFrom(node, uint16(port.NodePort))
		vips = append(vips, addressVIPs(service, address, near)...)
		if externalLocal(service) {
			local := netip.AddrPortFrom(ipam.LocalNodePorts()[i], address.Port())
			vips = append(vips, VIP{AddrPort: local, Reach: ReachSwitches, From: FromLocal})
		}
	}
	return vips
}

// hasFamily reports whether a service has a cluster IP of an address's family.
func hasFamily(service *corev1.Service, address netip.Addr) bool {
	return slices.ContainsFunc(clusterIPs(service), func(ip netip.Addr) bool { return ip.Is4() == address.Is4() })
}

// virtualAddresses returns the cluster IPs, external IPs and the load balancer's addresses, without duplicates.
func virtualAddresses(service *corev1.Service) (addresses []netip.Addr, problems []string) {
	add := func(field, text string) {
		address, err := addressOf(text)
		switch {
		case err != nil:
			problems = append(problems, fmt.Sprintf("%s: %q is not an IP address", field, text))
		case isSpecial(address):
			problems = append(problems, fmt.Sprintf("%s: %s belongs to every host", field, text))
		case !hasFamily(service, address):
			problems = append(problems, fmt.Sprintf("%s: %s has another family than the service's cluster IPs", field, text))
		case !slices.Contains(addresses, address):
			addresses = append(addresses, address)
		}
	}
	for _, text := range service.Spec.ClusterIPs {
		add("spec.clusterIPs", text)
	}
	for _, text := range service.Spec.ExternalIPs {
		add("spec.externalIPs", text)
	}
	for _, text := range ingressIPs(service) {
		add("status.loadBalancer.ingress", text)
	}
	return addresses, problems
}

// ingressIPs returns the addresses of load balancers that forward packets unchanged. A proxy's address must reach the proxy,
// because it does more than balance.
func ingressIPs(service *corev1.Service) (texts []string) {
	if service.Spec.Type != corev1.ServiceTypeLoadBalancer {
		return nil
	}
	for _, ingress := range service.Status.LoadBalancer.Ingress {
		if ingress.IP != "" && (ingress.IPMode == nil || *ingress.IPMode == corev1.LoadBalancerIPModeVIP) {
			texts = append(texts, ingress.IP)
		}
	}
	return texts
}

// balancerAddresses and clusterIPs return the readable addresses. virtualAddresses reports the others.
func balancerAddresses(service *corev1.Service) []netip.Addr { return readable(ingressIPs(service)) }

func clusterIPs(service *corev1.Service) []netip.Addr { return readable(service.Spec.ClusterIPs) }

func readable(texts []string) (addresses []netip.Addr) {
	for _, text := range texts {
		if address, err := addressOf(text); err == nil {
			addresses = append(addresses, address)
		}
	}
	return addresses
}

// addressOf parses an address as the API server does, which permits leading zeros in old objects.
func addressOf(text string) (netip.Addr, error) {
	if ip := utilnet.ParseIPSloppy(text); ip != nil {
		address, _ := netip.AddrFromSlice(ip)
		return address.Unmap(), nil
	}
	return netip.Addr{}, fmt.Errorf("%q is not an IP address", text)
}

// prefixOf is addressOf for a network, without its host bits. Blanks around it do not count.
func prefixOf(text string) (netip.Prefix, error) {
	_, network, err := utilnet.ParseCIDRSloppy(strings.TrimSpace(text))
	if err != nil {
		return netip.Prefix{}, err
	}
	ones, _ := network.Mask.Size()
	address, _ := netip.AddrFromSlice(network.IP)
	return netip.PrefixFrom(address.Unmap(), ones).Masked(), nil
}

// isSpecial reports whether an address is every host's own. The API server refuses these as external IPs, but not as
// addresses of load balancers.
func isSpecial(a netip.Addr) bool {
	return a.IsUnspecified() || a.IsLoopback() || a.IsMulticast() || a.IsLinkLocalUnicast()
}
