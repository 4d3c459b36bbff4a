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
// random ports that the pod got. problems names the container and the port of every host port that cannot be provided.
func HostPorts(pod *corev1.Pod) (ports []HostPort, problems []string) {
	if pod.Spec.HostNetwork {
		return nil, nil // the ports are the pod's own
	}
	ports, problems = namedHostPorts(pod)
	given, unreadable := givenHostPorts(pod)
	return append(ports, given...), append(problems, unreadable...)
}

// PortsOfNode returns the ports of its node that a pod has or names, until it has ended: the host ports, and of a pod in the host's
// network the ports that it declares.
func PortsOfNode(pod *corev1.Pod) (ports []HostPort) {
	switch {
	case !isOnNode(pod):
	case pod.Spec.HostNetwork:
		ports, _ = namedHostPorts(pod)
	default:
		ports, _ = HostPorts(pod)
	}
	return ports
}

// HostPortHolder returns words for other if it keeps a host port that a pod of its node names or has; empty: it does not. A random host
// port was free when the node's agent gave it, so that a pod that names the port yields. Otherwise the pod keeps the port that kubelet
// started first. kube-scheduler and kubelet keep most pods with equal ports apart, but compare the text of hostIP: for them :: and
// ::ffff:192.0.2.1 do not conflict with 192.0.2.1.
func HostPortHolder(pod, other *corev1.Pod, port HostPort) string {
	if other.UID == pod.UID || other.Spec.NodeName != pod.Spec.NodeName {
		return ""
	}
	name := " of pod " + other.Namespace + "/" + other.Name
	for _, theirs := range PortsOfNode(other) {
		switch {
		case !port.overlaps(theirs):
		case theirs.Random && (!port.Random || startedBefore(other, pod)):
			return "the random host port" + name
		case !theirs.Random && !port.Random && startedBefore(other, pod):
			return "the host port" + name
		}
	}
	return ""
}

// overlaps reports whether two host ports of a node are one at an address.
func (p HostPort) overlaps(other HostPort) bool {
	return p.Protocol == other.Protocol && p.Port == other.Port &&
		(p.Address == other.Address || !p.Address.IsValid() || !other.Address.IsValid())
}

// startedBefore orders the pods of a node by when kubelet started them. A pod that kubelet has not started comes last. Who creates pods
// cannot choose this time.
func startedBefore(pod, other *corev1.Pod) bool {
	a, b := pod.Status.StartTime, other.Status.StartTime
	switch {
	case a.IsZero() != b.IsZero():
		return b.IsZero()
	case !a.Equal(b):
		return a.Before(b)
	case !pod.CreationTimestamp.Equal(&other.CreationTimestamp):
		return pod.CreationTimestamp.Before(&other.CreationTimestamp)
	}
	return pod.UID < other.UID
}

// namedHostPorts returns the host ports that a pod's containers name.
func namedHostPorts(pod *corev1.Pod) (ports []HostPort, problems []string) {
	for container := range Containers(pod) {
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
	return ports, problems
}
