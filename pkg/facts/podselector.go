package facts

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"

	"k8s.io/apimachinery/pkg/labels"
)

// PodSelector selects pods with a network of their own. Policies with equal selectors share one port group and one
// address set, whose names are derived from the selector.
type PodSelector struct {
	// Network is the Network on which the pods' ports and addresses are selected. Empty means the cluster network.
	Network string
	// Namespace is the pods' namespace. If it is empty, Namespaces selects the namespaces.
	Namespace  string
	Namespaces labels.Selector
	Pods       labels.Selector
	// Port limits the selection to pods that have such a port, unless it is nil.
	Port *NamedPort
}

// NamedPort is a container's port with a name.
type NamedPort struct {
	Name     string
	Protocol corev1.Protocol
	Number   uint16
}

// AllPods selects the pods of all namespaces.
func AllPods() PodSelector {
	return PodSelector{Namespaces: labels.Everything(), Pods: labels.Everything()}
}

// NamespacePods selects all pods of a namespace.
func NamespacePods(namespace string) PodSelector {
	return PodSelector{Namespace: namespace, Pods: labels.Everything()}
}

// WithPort limits a selector to pods that have a port.
func (s PodSelector) WithPort(port NamedPort) PodSelector {
	s.Port = &port
	return s
}

// On returns the selector for the pods' ports on a Network.
func (s PodSelector) On(network string) PodSelector {
	s.Network = network
	return s
}

// String returns the selector's canonical form. Selectors with equal forms select the same pods.
func (s PodSelector) String() string {
	text := "namespace " + s.Namespace
	if s.Namespace == "" {
		text = "namespaces " + textOf(s.Namespaces)
	}
	text += ", pods " + textOf(s.Pods)
	if s.Port != nil {
		text += fmt.Sprintf(", port %s/%s=%d", s.Port.Protocol, s.Port.Name, s.Port.Number)
	}
	if s.Network != "" {
		text += ", network " + s.Network
	}
	return text
}

// textOf returns the canonical form of a selector. A selector of nothing has the same String as one of everything.
func textOf(s labels.Selector) string {
	if _, selectable := s.Requirements(); !selectable {
		return "nothing"
	}
	return "{" + s.String() + "}"
}

// SelectedPod holds the facts for a selector.
type SelectedPod struct {
	// Network is the Network of the port in question, or empty for the pod's port on the cluster network.
	Network                 string
	Namespace, Name         string
	NamespaceLabels, Labels labels.Set
	Ports                   []NamedPort
}

// Matches reports whether the pod is selected.
func (s PodSelector) Matches(pod SelectedPod) bool {
	if s.Network != pod.Network {
		return false
	}
	if s.Namespace != "" && s.Namespace != pod.Namespace || s.Namespace == "" && !s.Namespaces.Matches(pod.NamespaceLabels) {
		return false
	}
	if !s.Pods.Matches(pod.Labels) {
		return false
	}
	if s.Port == nil {
		return true
	}
	for _, port := range pod.Ports {
		if port == *s.Port {
			return true
		}
	}
	return false
}

// NamedPorts returns the named ports of a pod's containers, including sidecars.
func NamedPorts(pod *corev1.Pod) (ports []NamedPort) {
	for c := range Containers(pod) {
		for _, p := range c.Ports {
			if p.Name != "" && p.ContainerPort > 0 && p.ContainerPort <= 65535 {
				ports = append(ports, NamedPort{p.Name, cmp.Or(p.Protocol, corev1.ProtocolTCP), uint16(p.ContainerPort)})
			}
		}
	}
	return ports
}

func (p NamedPort) String() string {
	return string(p.Protocol) + "/" + p.Name + "=" + strconv.Itoa(int(p.Number))
}

// NumbersOf lists the numbers that pods give to a named port, in order.
func NumbersOf(selector PodSelector, port NamedPort, pods []SelectedPod) (numbers []uint16) {
	for _, pod := range pods {
		for _, p := range pod.Ports {
			if p.Name == port.Name && p.Protocol == port.Protocol && selector.Matches(pod) {
				numbers = append(numbers, p.Number)
			}
		}
	}
	slices.SortFunc(numbers, cmp.Compare)
	return slices.Compact(numbers)
}
