package topology

import (
	"cmp"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/weft-network/weft/pkg/names"
	"github.com/weft-network/weft/pkg/nbdb"
	"github.com/weft-network/weft/pkg/unit"
)

const (
	// hairpinAddresses are the source that a pod sees when it reaches itself through its service: its own address, answered to,
	// would not come back through the load balancer.
	hairpinAddresses = "169.254.169.5 fd69::5"
	// longestAffinity is the longest affinity_timeout in seconds (ovn-nb(5), Load_Balancer); Kubernetes allows 86,400.
	longestAffinity = 65535
)

// Service is what the load balancers of a service need to know.
type Service struct {
	Namespace, Name string
	// Affinity is how many seconds a client stays with its backend after its last connection; 0: each connection is balanced anew.
	Affinity int
	Ports    []ServicePort
}

// ServicePort is one port of a service, on all its addresses.
type ServicePort struct {
	Protocol corev1.Protocol
	// VIPs are where clients connect to, Backends where their connections go, of both families: a VIP takes those of its own. A
	// VIP without a backend rejects.
	VIPs, Backends []netip.AddrPort
}

// ServiceUnit wants the load balancers of a service: one for each protocol, with both families, in the group that every node has.
func ServiceUnit(s Service) unit.Unit {
	u := unit.Unit{Key: ServiceKey(s.Namespace, s.Name)}
	for _, protocol := range []corev1.Protocol{corev1.ProtocolTCP, corev1.ProtocolUDP, corev1.ProtocolSCTP} {
		vips := s.vips(protocol)
		if len(vips) == 0 {
			continue
		}
		lb := s.loadBalancer(protocol, vips)
		u.Rows = append(u.Rows, unit.Row{Model: lb})
		u.Members = append(u.Members, unit.Membership{Parent: loadBalancersRef(names.ClusterLoadBalancers), Column: "load_balancer", Element: lb.UUID})
	}
	return u
}

func (s Service) loadBalancer(protocol corev1.Protocol, vips map[string]string) *nbdb.LoadBalancer {
	name, text := names.ServiceLoadBalancer(s.Namespace, s.Name, string(protocol)), strings.ToLower(string(protocol))
	lb := &nbdb.LoadBalancer{
		UUID: unit.UUID(nbdb.LoadBalancerTable, name), Name: name, Protocol: &text, Vips: vips,
		Options: map[string]string{
			"reject": "true", "event": "false", "skip_snat": "false", "hairpin_snat_ip": hairpinAddresses,
			// The routers must not answer ARP for cluster IPs: nobody asks on a link.
			"neighbor_responder": "none",
		},
		ExternalIDs: map[string]string{"k8s.ovn.org/kind": "Service", "k8s.ovn.org/owner": s.Namespace + "/" + s.Name},
	}
	if protocol == corev1.ProtocolUDP {
		// A client that keeps its port would go on to a backend that is gone, for as long as it sends. TCP connections end with their
		// backend, and may outlast its removal from the service.
		lb.Options["ct_flush"] = "true"
	}
	switch {
	case s.Affinity > longestAffinity:
		lb.SelectionFields = []string{"ip_dst", "ip_src"} // the backend follows from the client, for ever
	case s.Affinity > 0:
		lb.Options["affinity_timeout"] = strconv.Itoa(s.Affinity)
	}
	return lb
}

// vips renders the VIPs of a protocol as OVN reads them: "10.96.0.10:53" -> "10.244.0.3:53,10.244.1.4:53".
func (s Service) vips(protocol corev1.Protocol) map[string]string {
	vips := map[string]string{}
	for _, port := range s.Ports {
		if port.Protocol != protocol {
			continue
		}
		for _, vip := range port.VIPs {
			vips[vip.String()] = backendsOf(vip, port.Backends)
		}
	}
	return vips
}

// backendsOf lists the backends of the VIP's family, sorted: the order of a service's endpoints means nothing.
func backendsOf(vip netip.AddrPort, backends []netip.AddrPort) string {
	var family []netip.AddrPort
	for _, backend := range backends {
		if backend.Addr().Is4() == vip.Addr().Is4() {
			family = append(family, backend)
		}
	}
	slices.SortFunc(family, netip.AddrPort.Compare)
	texts := make([]string, 0, len(family))
	for _, backend := range slices.Compact(family) {
		texts = append(texts, backend.String())
	}
	return strings.Join(texts, ",")
}

// ServiceKey is the unit of a service.
func ServiceKey(namespace, name string) unit.Key { return unit.NewKey(KindService, namespace, name) }

func loadBalancersRef(group string) unit.Ref {
	return unit.Ref{Table: nbdb.LoadBalancerGroupTable, UUID: unit.UUID(nbdb.LoadBalancerGroupTable, group)}
}

// affinityOf is how many seconds the service wants a client to stay with its backend.
func affinityOf(spec corev1.ServiceSpec) int {
	if spec.SessionAffinity != corev1.ServiceAffinityClientIP {
		return 0
	}
	seconds := int32(0)
	if c := spec.SessionAffinityConfig; c != nil && c.ClientIP != nil && c.ClientIP.TimeoutSeconds != nil {
		seconds = *c.ClientIP.TimeoutSeconds
	}
	return int(cmp.Or(seconds, corev1.DefaultClientIPServiceAffinitySeconds))
}
