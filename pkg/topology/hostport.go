package topology

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/weft-network/weft/pkg/names"
	"github.com/weft-network/weft/pkg/nbdb"
	"github.com/weft-network/weft/pkg/ovnexpr"
	"github.com/weft-network/weft/pkg/unit"
)

// HostPort is a port of the node that leads to a pod.
type HostPort struct {
	Protocol corev1.Protocol
	// Address is the one of the host that was asked for; not valid: all that the node is known by.
	Address netip.Addr
	// Port is the node's, Target the pod's.
	Port, Target uint16
}

// HostPorts are the host ports of a pod, in a fixed order, each once. Containers that start others before them and go on to run
// count (KEP-753). What cannot be had is told: problems name the container and the port.
func HostPorts(pod *corev1.Pod) (ports []HostPort, problems []string) {
	if pod.Spec.HostNetwork {
		return nil, nil // they are the pod's own
	}
	for _, container := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		for _, p := range container.Ports {
			if p.HostPort == 0 {
				continue
			}
			port := HostPort{Protocol: p.Protocol, Port: uint16(p.HostPort), Target: uint16(p.ContainerPort)}
			if port.Protocol == "" {
				port.Protocol = corev1.ProtocolTCP
			}
			if address, err := netip.ParseAddr(p.HostIP); err == nil && !address.IsUnspecified() {
				port.Address = address
			} else if p.HostIP != "" && err != nil {
				problems = append(problems, fmt.Sprintf("container %s, host port %d: %q is no IP address", container.Name, p.HostPort, p.HostIP))
				continue
			}
			if port.Address == netip.IPv6Loopback() {
				problems = append(problems, fmt.Sprintf("container %s, host port %d: what is for %s never leaves the host, and the kernel does not translate it", container.Name, p.HostPort, p.HostIP))
				continue
			}
			if !slices.Contains(ports, port) {
				ports = append(ports, port)
			}
		}
	}
	return ports, problems
}

// text is the host port as ovnexpr.HostPort reads it.
func (h HostPort) text() string {
	return ovnexpr.HostPort{Protocol: strings.ToLower(string(h.Protocol)), Address: h.Address, Port: h.Port, Target: h.Target}.String()
}

// addHostPorts wants a balancer for each protocol and family on the node's switch and gateway router. The pod is on the node, so that its
// answers pass where its clients' packets did: they keep their source.
func (p Pod) addHostPorts(u *unit.Unit, port *nbdb.LogicalSwitchPort) {
	var told []string
	balancers := map[string]*nbdb.LoadBalancer{}
	for _, h := range p.HostPorts {
		told = append(told, h.text())
		if h.Address.IsLoopback() {
			continue // the host alone gets there
		}
		for _, address := range p.Addresses {
			if h.Address.IsValid() && h.Address.Is4() != address.Is4() {
				continue
			}
			lb := p.hostPortBalancer(u, balancers, h, names.Family(address))
			lb.Vips[h.vip(names.Family(address))] = netip.AddrPortFrom(address, h.Target).String()
		}
	}
	if len(told) > 0 {
		slices.Sort(told)
		port.ExternalIDs[ovnexpr.HostPortsKey] = strings.Join(told, ",")
	}
}

// vip is the host port as OVN reads it.
func (h HostPort) vip(family string) string {
	if h.Address.IsValid() {
		return netip.AddrPortFrom(h.Address, h.Port).String()
	}
	return "^" + names.NodeAddressVariable(family) + ":" + strconv.Itoa(int(h.Port))
}

// hostPortBalancer returns the balancer of a host port, which it adds to the unit if there was none.
func (p Pod) hostPortBalancer(u *unit.Unit, have map[string]*nbdb.LoadBalancer, h HostPort, family string) *nbdb.LoadBalancer {
	scope := "hostport_template_" + family
	if h.Address.IsValid() {
		scope = "hostport"
	}
	name := names.PodLoadBalancer(p.Namespace, p.Name, string(h.Protocol), scope)
	if lb := have[name]; lb != nil {
		return lb
	}
	protocol := strings.ToLower(string(h.Protocol))
	lb := &nbdb.LoadBalancer{UUID: unit.UUID(nbdb.LoadBalancerTable, name+" "+p.UID), Name: name, Protocol: &protocol, Vips: map[string]string{},
		Options: map[string]string{"reject": "true", "event": "false", "hairpin_snat_ip": hairpinAddresses, "skip_snat": "true", "neighbor_responder": "none"},
		// The field's kinds are those of Kubernetes.
		ExternalIDs: map[string]string{"k8s.ovn.org/kind": "Pod", "k8s.ovn.org/owner": p.Namespace + "/" + p.Name}}
	if !h.Address.IsValid() {
		lb.Options["template"], lb.Options["address-family"] = "true", strings.ToLower(family)
	}
	if h.Protocol == corev1.ProtocolUDP {
		lb.Options["ct_flush"] = "true"
	}
	have[name] = lb
	u.Rows = append(u.Rows, unit.Row{Model: lb})
	u.Members = append(u.Members, unit.Membership{Parent: loadBalancersRef(names.NodeLoadBalancers(p.Node)), Column: "load_balancer", Element: lb.UUID})
	return lb
}
