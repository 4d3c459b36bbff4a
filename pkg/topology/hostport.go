package topology

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/weft-network/weft/pkg/ovn/names"
	"github.com/weft-network/weft/pkg/ovn/nbdb"
	"github.com/weft-network/weft/pkg/ovn/ovnexpr"
	"github.com/weft-network/weft/pkg/unit"
)

// HostPort is a port of the node that leads to a pod.
type HostPort struct {
	Protocol corev1.Protocol
	// Address is the requested address of the host. If it is invalid, all addresses of the node are meant.
	Address netip.Addr
	// Port is the node's port, Target the pod's.
	Port, Target uint16
}

// HostPorts returns the host ports of a pod in a fixed order, without duplicates. Init containers that keep running
// count (KEP-753). problems names the container and the port of every host port that cannot be provided.
func HostPorts(pod *corev1.Pod) (ports []HostPort, problems []string) {
	if pod.Spec.HostNetwork {
		return nil, nil // the ports are the pod's own
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
				problems = append(problems, fmt.Sprintf("container %s, host port %d: %q is not an IP address",
					container.Name, p.HostPort, p.HostIP))
				continue
			}
			if port.Address == netip.IPv6Loopback() {
				problems = append(problems,
					fmt.Sprintf(
						"container %s, host port %d: packets to %s never leave the host, and the kernel does not translate them",
						container.Name, p.HostPort, p.HostIP))
				continue
			}
			if !slices.Contains(ports, port) {
				ports = append(ports, port)
			}
		}
	}
	return ports, problems
}

// text returns the host port in the notation of ovnexpr.HostPort.
func (h HostPort) text() string {
	return ovnexpr.HostPort{Protocol: strings.ToLower(string(h.Protocol)), Address: h.Address, Port: h.Port, Target: h.Target}.String()
}

// addHostPorts adds a balancer for each protocol and family to the node's switch and gateway router. The pod is on
// the node, so that its replies take the same path back and clients keep their source address.
func (p Pod) addHostPorts(u *unit.Unit, port *nbdb.LogicalSwitchPort) {
	var texts []string
	balancers := map[string]*nbdb.LoadBalancer{}
	for _, h := range p.HostPorts {
		texts = append(texts, h.text())
		if h.Address.IsLoopback() {
			continue // only the host can reach it
		}
		for _, address := range p.Addresses {
			if h.Address.IsValid() && h.Address.Is4() != address.Is4() {
				continue
			}
			lb := p.hostPortBalancer(u, balancers, h, names.Family(address))
			lb.Vips[h.vip(names.Family(address))] = netip.AddrPortFrom(address, h.Target).String()
		}
	}
	if len(texts) > 0 {
		slices.Sort(texts)
		port.ExternalIDs[ovnexpr.HostPortsKey] = strings.Join(texts, ",")
	}
}

// vip returns the host port in OVN's notation.
func (h HostPort) vip(family string) string {
	if h.Address.IsValid() {
		return netip.AddrPortFrom(h.Address, h.Port).String()
	}
	return "^" + names.NodeAddressVariable(family) + ":" + strconv.Itoa(int(h.Port))
}

// hostPortBalancer returns the balancer of a host port. It adds the balancer to the unit if it does not exist.
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
	lb := &nbdb.LoadBalancer{UUID: unit.UUID(nbdb.LoadBalancerTable, name+" "+p.UID), Name: name, Protocol: &protocol,
		Vips: map[string]string{},
		Options: map[string]string{"reject": "true", "event": "false", "hairpin_snat_ip": hairpinAddresses,
			"skip_snat": "true", "neighbor_responder": "none"},
		// The values are kinds of Kubernetes.
		ExternalIDs: map[string]string{"k8s.ovn.org/kind": "Pod", "k8s.ovn.org/owner": p.Namespace + "/" + p.Name}}
	if !h.Address.IsValid() {
		lb.Options["template"], lb.Options["address-family"] = "true", strings.ToLower(family)
	}
	if h.Protocol == corev1.ProtocolUDP {
		lb.Options["ct_flush"] = "true"
	}
	have[name] = lb
	u.Rows = append(u.Rows, unit.Row{Model: lb})
	u.Members = append(u.Members, unit.Membership{Parent: loadBalancersRef(names.NodeLoadBalancers(p.Node)),
		Column: "load_balancer", Element: lb.UUID})
	return lb
}
