package facts

import (
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// HostPort is a port of the node that leads to a pod.
type HostPort struct {
	Protocol corev1.Protocol
	// Address is the requested address of the host. If it is invalid, all addresses of the node are meant.
	Address netip.Addr
	// Port is the node's port, Target the pod's.
	Port, Target uint16
	// Random is true for a port that the pod did not name: the agent of its node chose it.
	Random bool
}

// HasHostPort reports whether a pod has a host port, in NodePort's notation, at an address of its node.
func HasHostPort(pod *corev1.Pod, port string, address netip.Addr) bool {
	ports, _ := HostPorts(pod)
	return slices.ContainsFunc(ports, func(p HostPort) bool {
		return NodePort(p.Protocol, p.Port) == port && (!p.Address.IsValid() || p.Address == address)
	})
}

// HostPorts returns the host ports of a pod in a fixed order, without duplicates: first the named ports, then the
// random ports that the pod got. Init containers that keep running count (KEP-753). problems names the container and the port of
// every host port that cannot be provided.
func HostPorts(pod *corev1.Pod) (ports []HostPort, problems []string) {
	if pod.Spec.HostNetwork {
		return nil, nil // the ports are the pod's own
	}
	for _, container := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		for _, p := range container.Ports {
			if p.HostPort == 0 {
				continue
			}
			port := HostPort{Protocol: protocolOf(p), Port: uint16(p.HostPort), Target: uint16(p.ContainerPort)}
			if address, err := netip.ParseAddr(p.HostIP); err == nil && !address.Unmap().IsUnspecified() {
				port.Address = address.Unmap()
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
	given, unreadable := givenHostPorts(pod)
	return append(ports, given...), append(problems, unreadable...)
}
