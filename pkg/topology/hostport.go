package topology

import (
	"net/netip"
	"strconv"
	"strings"

	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/ovn/names"
	"github.com/weft-network/weft/pkg/ovn/nbdb"
	"github.com/weft-network/weft/pkg/ovn/ovnexpr"
	"github.com/weft-network/weft/pkg/unit"
)

// elementOf returns the host port in the notation of ovnexpr.HostPort.
func elementOf(h facts.HostPort) ovnexpr.HostPort {
	return ovnexpr.HostPort{Protocol: strings.ToLower(string(h.Protocol)), Address: h.Address, Port: h.Port, Target: h.Target}
}

// listHostPorts writes host ports into the port's external_ids, if there are any.
func listHostPorts(port *nbdb.LogicalSwitchPort, key string, ports []facts.HostPort) {
	elements := make([]ovnexpr.HostPort, 0, len(ports))
	for _, h := range ports {
		elements = append(elements, elementOf(h))
	}
	if text := ovnexpr.FormatHostPorts(elements); text != "" {
		port.ExternalIDs[key] = text
	}
}

// addHostPorts adds a balancer for each protocol and family to the node's switch and gateway router. The pod is on
// the node, so that its replies take the same path back and clients keep their source address.
func (p Pod) addHostPorts(u *unit.Unit, port *nbdb.LogicalSwitchPort) {
	listHostPorts(port, ovnexpr.HostPortsKey, p.HostPorts)
	listHostPorts(port, ovnexpr.RandomHostPortsKey, p.RandomHostPorts)
	balancers := map[string]*nbdb.LoadBalancer{}
	for _, h := range p.HostPorts {
		if h.Address.IsLoopback() {
			continue // only the host can reach it
		}
		for _, address := range p.Addresses {
			if h.Address.IsValid() && h.Address.Is4() != address.Is4() {
				continue
			}
			lb := p.hostPortBalancer(u, balancers, h, names.Family(address))
			lb.Vips[vipOf(h, names.Family(address))] = netip.AddrPortFrom(address, h.Target).String()
		}
	}
}

// vipOf returns the host port in OVN's notation.
func vipOf(h facts.HostPort, family string) string {
	if h.Address.IsValid() {
		return netip.AddrPortFrom(h.Address, h.Port).String()
	}
	return "^" + names.NodeAddressVariable(family) + ":" + strconv.Itoa(int(h.Port))
}

// hostPortBalancer returns the balancer of a host port. It adds the balancer to the unit if it does not exist.
func (p Pod) hostPortBalancer(u *unit.Unit, have map[string]*nbdb.LoadBalancer, h facts.HostPort, family string) *nbdb.LoadBalancer {
	scope := "hostport_template_" + family
	if h.Address.IsValid() {
		scope = "hostport"
	}
	name := names.PodLoadBalancer(p.Namespace, p.Name, string(h.Protocol), scope)
	if lb := have[name]; lb != nil {
		return lb
	}
	protocol := strings.ToLower(string(h.Protocol))
	lb := &nbdb.LoadBalancer{UUID: unit.UUID(nbdb.LoadBalancerTable, name+" "+p.UID), Name: name, Protocol: &protocol,
		Vips: map[string]string{},
		Options: map[string]string{"reject": "true", "event": "false", "hairpin_snat_ip": hairpinAddresses,
			"skip_snat": "true", "neighbor_responder": "none"},
		// The values are kinds of Kubernetes.
		ExternalIDs: map[string]string{"k8s.ovn.org/kind": "Pod", "k8s.ovn.org/owner": p.Namespace + "/" + p.Name}}
	if !h.Address.IsValid() {
		lb.Options["template"], lb.Options["address-family"] = "true", strings.ToLower(family)
	}
	if h.Protocol == facts.UDP {
		lb.Options["ct_flush"] = "true"
	}
	have[name] = lb
	u.Rows = append(u.Rows, unit.Row{Model: lb})
	u.Members = append(u.Members, unit.Membership{Parent: loadBalancersRef(names.NodeLoadBalancers(p.Node)),
		Column: "load_balancer", Element: lb.UUID})
	return lb
}
