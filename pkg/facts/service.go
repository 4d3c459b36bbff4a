package facts

import (
	"net/netip"

	corev1 "k8s.io/api/core/v1"
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
