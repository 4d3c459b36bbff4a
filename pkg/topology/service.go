package topology

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/ovn/names"
	"github.com/weft-network/weft/pkg/ovn/nbdb"
	"github.com/weft-network/weft/pkg/unit"
)

// hairpinAddresses are the sources that a pod sees when it reaches itself through its service. Replies to its own
// address would not return through the load balancer.
const hairpinAddresses = "169.254.169.5 fd69::5"

// HairpinAddresses returns the sources of packets that a load balancer returns to their sender.
func HairpinAddresses() (all []netip.Addr) {
	for text := range strings.FieldsSeq(hairpinAddresses) {
		all = append(all, netip.MustParseAddr(text))
	}
	return all
}

// balancer identifies one of the load balancers of a service. A balancer has one protocol, one set of options and one
// kind of clients.
type balancer struct {
	reach    facts.Reach
	template string // family of a balancer whose text each chassis completes, "IPv4"; empty if the text is the same everywhere
	node     string // the only node that has the balancer; empty: all have it
}

func (b balancer) scope() string {
	switch {
	case b.node != "":
		return names.OfNode(string(b.reach), b.node)
	case b.template != "":
		return string(b.reach) + "_template_" + b.template
	}
	return string(b.reach)
}

// membership adds a load balancer to its switches and routers. A node's own balancer has an effect as soon as the node
// has that switch or router.
func (b balancer) membership(lb string) unit.Membership {
	m := unit.Membership{Column: "load_balancer", Element: lb, Optional: b.node != ""}
	switch {
	case b.node != "" && b.reach == facts.ReachSwitches:
		m.Parent = switchRef(names.NodeSwitch(b.node))
	case b.node != "" && b.reach == facts.ReachRouters:
		m.Parent = routerRef(names.GatewayRouter(b.node))
	case b.node != "":
		m.Parent = loadBalancersRef(names.NodeLoadBalancers(b.node))
	case b.reach == facts.ReachSwitches:
		m.Parent = loadBalancersRef(names.SwitchLoadBalancers)
	case b.reach == facts.ReachRouters:
		m.Parent = loadBalancersRef(names.RouterLoadBalancers)
	default:
		m.Parent = loadBalancersRef(names.ClusterLoadBalancers)
	}
	return m
}

// service computes the parts of ServiceUnit.
type service struct{ facts.Service }

// ServiceUnit returns a unit with the load balancers of a service in the groups that every node has or in the groups of
// single nodes, and the values of their variables on each node. It also makes the cluster IPs refuse packets for other ports.
func ServiceUnit(read facts.Service) unit.Unit {
	s := service{read}
	u := unit.Unit{Key: ServiceKey(s.Namespace, s.Name)}
	for _, protocol := range []facts.Protocol{facts.TCP, facts.UDP, facts.SCTP} {
		vips, variables := s.render(protocol)
		for _, b := range slices.SortedFunc(maps.Keys(vips), func(x, y balancer) int { return cmp.Compare(x.scope(), y.scope()) }) {
			lb := s.loadBalancer(protocol, b, vips[b])
			u.Rows = append(u.Rows, unit.Row{Model: lb})
			u.Members = append(u.Members, b.membership(lb.UUID))
		}
		u.Members = append(u.Members, s.values(variables)...)
	}
	u.Members = append(u.Members, refuseOthers(s.ClusterIPs)...)
	s.addLocalDrops(&u)
	return u
}

func (s service) loadBalancer(protocol facts.Protocol, b balancer, vips map[string]string) *nbdb.LoadBalancer {
	name, text := names.ServiceLoadBalancer(s.Namespace, s.Name, string(protocol), b.scope()), strings.ToLower(string(protocol))
	lb := &nbdb.LoadBalancer{
		UUID: unit.UUID(nbdb.LoadBalancerTable, name), Name: name, Protocol: &text, Vips: vips,
		Options: map[string]string{
			"reject": strconv.FormatBool(!s.Idle), "event": strconv.FormatBool(s.Idle), "hairpin_snat_ip": hairpinAddresses,
			// A router's balancer hides clients, so that replies return through the router. On the same node they do
			// so anyway.
			"skip_snat": strconv.FormatBool(b.reach == facts.ReachRouters),
			// The routers must not answer ARP for cluster IPs, because no client resolves them on a link.
			"neighbor_responder": "none",
		},
		ExternalIDs: map[string]string{"k8s.ovn.org/kind": "Service", "k8s.ovn.org/owner": s.Namespace + "/" + s.Name},
	}
	if b.template != "" {
		lb.Options["template"], lb.Options["address-family"] = "true", strings.ToLower(b.template)
	}
	if protocol == facts.UDP {
		// Without a flush, a client that keeps its port would stay on a removed backend for as long as it sends. TCP
		// connections end with their backend, and may outlast its removal from the service.
		lb.Options["ct_flush"] = "true"
	}
	if s.AffinityTimeout > 0 {
		lb.Options["affinity_timeout"] = strconv.Itoa(min(s.AffinityTimeout, maxAffinity))
		lb.SelectionFields = []string{"ip_src"}
	}
	return lb
}

// vips has the texts of a protocol's balancers in OVN's notation: "10.96.0.10:53" -> "10.244.0.3:53,10.244.1.4:53".
type vips map[balancer]map[string]string

func (v vips) set(b balancer, vip, backends string) {
	if v[b] == nil {
		v[b] = map[string]string{}
	}
	v[b][vip] = backends
}

// render returns the vips of each balancer of a protocol. A node's own address or backends are represented by the name of a
// variable, which render adds to variables. With affinity, and at local VIPs, they are texts of the node's own balancer.
func (s service) render(protocol facts.Protocol) (all vips, variables []variable) {
	all = vips{}
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
			differs := len(backends) > 0 && vip.From != facts.FromAll
			switch {
			case differs && isLocal(vip):
				s.renderLocal(all, protocol, vip, backends)
				continue
			case s.AffinityTimeout > 0 && (vip.OnNode() || differs):
				s.renderOnNodes(all, vip, backends)
				continue
			}
			text, b := listOf(facts.Choose(backends, facts.FromAll, facts.ServiceNode{}), s.Turn), balancer{reach: vip.Reach}
			if differs {
				b.template = names.Family(vip.Addr())
				text = note(variable{name: names.BackendsVariable(s.Namespace, s.Name, string(protocol), port.Number,
					b.template, string(vip.From)), from: vip.From, backends: backends})
			}
			key := vip.String()
			if vip.OnNode() {
				b.template = names.Family(vip.Addr())
				key = "^" + names.NodeAddressVariable(b.template) + ":" + strconv.Itoa(int(vip.Port()))
			} else if b.template != "" && vip.Addr().Is6() {
				// A template cannot contain an IPv6 address with a port.
				key = note(variable{name: names.AddressVariable(vip.Addr()), address: vip.Addr()}) + ":" + strconv.Itoa(int(vip.Port()))
			}
			all.set(b, key, text)
		}
	}
	return all, variables
}

// familyOf returns the backends of an address's family.
func familyOf(address netip.Addr, backends []facts.Backend) (family []facts.Backend) {
	for _, backend := range backends {
		if backend.Addr().Is4() == address.Is4() {
			family = append(family, backend)
		}
	}
	return family
}

// listOf formats backends in OVN's notation, sorted, because the order of a service's endpoints means nothing. Each turn
// moves all backends by one place.
func listOf(backends []facts.Backend, turn int) string {
	backends = slices.Clone(backends)
	slices.SortFunc(backends, func(a, b facts.Backend) int { return a.Compare(b.AddrPort) })
	texts := make([]string, 0, len(backends))
	for _, backend := range backends {
		texts = append(texts, backend.String())
	}
	texts = slices.Compact(texts)
	if len(texts) > 1 {
		first := turn % len(texts)
		texts = slices.Concat(texts[first:], texts[:first])
	}
	return strings.Join(texts, ",")
}

// ServiceKey returns the unit of a service.
func ServiceKey(namespace, name string) unit.Key { return unit.NewKey(KindService, namespace, name) }

func loadBalancersRef(group string) unit.Ref {
	return unit.Ref{Table: nbdb.LoadBalancerGroupTable, UUID: unit.UUID(nbdb.LoadBalancerGroupTable, group)}
}

// hairpinSources returns hairpinAddresses as networks.
func hairpinSources() (sources []netip.Prefix) {
	for _, text := range strings.Fields(hairpinAddresses) {
		address := netip.MustParseAddr(text)
		sources = append(sources, netip.PrefixFrom(address, address.BitLen()))
	}
	return sources
}
