package topology

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/weft-network/weft/pkg/names"
	"github.com/weft-network/weft/pkg/nbdb"
	"github.com/weft-network/weft/pkg/unit"
)

// hairpinAddresses are the source that a pod sees when it reaches itself through its service: its own address, answered to,
// would not come back through the load balancer.
const hairpinAddresses = "169.254.169.5 fd69::5"

// Service is what the load balancers of a service need to know.
type Service struct {
	Namespace, Name string
	// Affinity: a client stays with its backend, at all addresses and on all nodes. Otherwise each connection is balanced anew.
	Affinity bool
	Ports    []ServicePort
	// Idle services tell when they are asked for without having a backend.
	Idle bool
	// Nodes are where the service may have other backends than elsewhere. They are needed only for VIPs that are not From All.
	Nodes []ServiceNode
}

// ServiceNode is a node as a service sees it.
type ServiceNode struct{ Name, Chassis, Zone string }

// ServicePort is one port of a service, on all its addresses.
type ServicePort struct {
	Protocol corev1.Protocol
	Number   uint16
	// VIPs are where clients connect to, Backends where their connections may go, of both families: a VIP takes those of its own.
	VIPs     []VIP
	Backends []Backend
}

// VIP is an address and a port that clients connect to. The unspecified address stands for each node's own.
type VIP struct {
	netip.AddrPort
	Reach Reach
	From  Choice
}

// OnNode reports whether the VIP is each node's own address.
func (v VIP) OnNode() bool { return v.Addr().IsUnspecified() }

// Reach says whose packets a VIP is for.
type Reach string

// Pods and hosts send through the switches of nodes, the world outside through gateway routers.
const (
	ReachAll      Reach = "cluster"
	ReachSwitches Reach = "node_switch"
	ReachRouters  Reach = "node_router"
)

// Choice says among which backends a VIP chooses.
type Choice string

const (
	// FromAll chooses among all.
	FromAll Choice = "all"
	// FromNear chooses among those that are meant for the node or its zone, and among all where there is none.
	FromNear Choice = "near"
	// FromLocal chooses among those of the same node; where there is none, packets are dropped.
	FromLocal Choice = "local"
)

// Backend is an endpoint that serves.
type Backend struct {
	netip.AddrPort
	// Ending backends serve yet, and take connections only where no other does.
	Ending bool
	// Node is where it runs; empty: unknown.
	Node string
	// ForNodes and ForZones are whom it is meant for (the hints of an EndpointSlice).
	ForNodes, ForZones []string
}

// balancer identifies one of the load balancers of a service: those of a protocol that have the same options and users.
type balancer struct {
	reach    Reach
	template string // the family of a balancer whose text is completed on each chassis, "IPv4"; empty: the text is the same everywhere
}

func (b balancer) scope() string {
	if b.template == "" {
		return string(b.reach)
	}
	return string(b.reach) + "_template_" + b.template
}

// group is the group of load balancers whose members are on the switches or routers that b shall be on.
func (b balancer) group() string {
	switch b.reach {
	case ReachSwitches:
		return names.SwitchLoadBalancers
	case ReachRouters:
		return names.RouterLoadBalancers
	}
	return names.ClusterLoadBalancers
}

// ServiceUnit wants the load balancers of a service, in the groups that every node has, and what their text means on each node.
func ServiceUnit(s Service) unit.Unit {
	u := unit.Unit{Key: ServiceKey(s.Namespace, s.Name)}
	for _, protocol := range []corev1.Protocol{corev1.ProtocolTCP, corev1.ProtocolUDP, corev1.ProtocolSCTP} {
		vips, variables := s.render(protocol)
		for _, b := range slices.SortedFunc(maps.Keys(vips), func(x, y balancer) int { return cmp.Compare(x.scope(), y.scope()) }) {
			lb := s.loadBalancer(protocol, b, vips[b])
			u.Rows = append(u.Rows, unit.Row{Model: lb})
			u.Members = append(u.Members, unit.Membership{Parent: loadBalancersRef(b.group()), Column: "load_balancer", Element: lb.UUID})
		}
		u.Members = append(u.Members, s.values(variables)...)
	}
	return u
}

func (s Service) loadBalancer(protocol corev1.Protocol, b balancer, vips map[string]string) *nbdb.LoadBalancer {
	name, text := names.ServiceLoadBalancer(s.Namespace, s.Name, string(protocol), b.scope()), strings.ToLower(string(protocol))
	lb := &nbdb.LoadBalancer{
		UUID: unit.UUID(nbdb.LoadBalancerTable, name), Name: name, Protocol: &text, Vips: vips,
		Options: map[string]string{
			"reject": strconv.FormatBool(!s.Idle), "event": strconv.FormatBool(s.Idle), "hairpin_snat_ip": hairpinAddresses,
			// A router's balancer hides clients, so that answers come back through it; where the backend is on the same node they do anyway.
			"skip_snat": strconv.FormatBool(b.reach == ReachRouters),
			// The routers must not answer ARP for cluster IPs: nobody asks on a link.
			"neighbor_responder": "none",
		},
		ExternalIDs: map[string]string{"k8s.ovn.org/kind": "Service", "k8s.ovn.org/owner": s.Namespace + "/" + s.Name},
	}
	if b.template != "" {
		lb.Options["template"], lb.Options["address-family"] = "true", strings.ToLower(b.template)
	}
	if protocol == corev1.ProtocolUDP {
		// A client that keeps its port would go on to a backend that is gone, for as long as it sends. TCP connections end with their
		// backend, and may outlast its removal from the service.
		lb.Options["ct_flush"] = "true"
	}
	if s.Affinity {
		lb.SelectionFields = []string{"ip_src"}
	}
	return lb
}

// render makes the vips of each balancer of a protocol, as OVN reads them: "10.96.0.10:53" -> "10.244.0.3:53,10.244.1.4:53". Where a
// node's own address or backends are wanted, it is the name of a variable, which render notes.
func (s Service) render(protocol corev1.Protocol) (vips map[balancer]map[string]string, variables []variable) {
	vips = map[balancer]map[string]string{}
	noted := map[string]bool{}
	note := func(v variable) string {
		if !noted[v.name] {
			noted[v.name], variables = true, append(variables, v)
		}
		return "^" + v.name
	}
	for _, port := range s.Ports {
		if port.Protocol != protocol {
			continue
		}
		for _, vip := range port.VIPs {
			backends := familyOf(vip.Addr(), port.Backends)
			text, b := listOf(usable(backends), s.Affinity), balancer{reach: vip.Reach}
			if text != "" && vip.From != FromAll {
				b.template = names.Family(vip.Addr())
				text = note(variable{name: names.BackendsVariable(s.Namespace, s.Name, string(protocol), port.Number, b.template, string(vip.From)), from: vip.From, backends: backends, affinity: s.Affinity})
			}
			key := vip.String()
			if vip.OnNode() {
				b.template = names.Family(vip.Addr())
				key = "^" + names.NodeAddressVariable(b.template) + ":" + strconv.Itoa(int(vip.Port()))
			} else if b.template != "" && vip.Addr().Is6() {
				// A template has no way to write an IPv6 address with a port.
				key = note(variable{name: names.AddressVariable(vip.Addr()), address: vip.Addr()}) + ":" + strconv.Itoa(int(vip.Port()))
			}
			if vips[b] == nil {
				vips[b] = map[string]string{}
			}
			vips[b][key] = text
		}
	}
	return vips, variables
}

// familyOf are the backends of an address's family.
func familyOf(address netip.Addr, backends []Backend) (family []Backend) {
	for _, backend := range backends {
		if backend.Addr().Is4() == address.Is4() {
			family = append(family, backend)
		}
	}
	return family
}

// usable are the backends that take connections: those that end only where no other is, which is better than to refuse a client
// (KEP-1669).
func usable(backends []Backend) (found []Backend) {
	for _, ending := range []bool{false, true} {
		for _, b := range backends {
			if b.Ending == ending {
				found = append(found, b)
			}
		}
		if len(found) > 0 {
			break
		}
	}
	return found
}

// listOf lists backends as OVN reads them, sorted: the order of a service's endpoints means nothing, but to affinity.
func listOf(backends []Backend, affinity bool) string {
	slices.SortFunc(backends, func(a, b Backend) int { return a.Compare(b.AddrPort) })
	texts := make([]string, 0, len(backends))
	for _, backend := range backends {
		texts = append(texts, backend.String())
	}
	texts = slices.Compact(texts)
	if affinity {
		texts = placed(texts)
	}
	return strings.Join(texts, ",")
}

// ServiceKey is the unit of a service.
func ServiceKey(namespace, name string) unit.Key { return unit.NewKey(KindService, namespace, name) }

func loadBalancersRef(group string) unit.Ref {
	return unit.Ref{Table: nbdb.LoadBalancerGroupTable, UUID: unit.UUID(nbdb.LoadBalancerGroupTable, group)}
}

// hairpinSources are hairpinAddresses as networks.
func hairpinSources() (sources []netip.Prefix) {
	for _, text := range strings.Fields(hairpinAddresses) {
		address := netip.MustParseAddr(text)
		sources = append(sources, netip.PrefixFrom(address, address.BitLen()))
	}
	return sources
}
