package topology

import (
	"cmp"
	"fmt"
	"net/netip"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/weft-network/weft/pkg/ovn/names"
	"github.com/weft-network/weft/pkg/ovn/nbdb"
	"github.com/weft-network/weft/pkg/unit"
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

// UnitOf returns the unit of a pod that names the selector's group and set.
func (s PodSelector) UnitOf(namespace, pod string) unit.Key {
	if s.Network == "" {
		return PodKey(namespace, pod)
	}
	return PodPortsKey(namespace, pod)
}

// String returns the selector's canonical form. Selectors with equal forms select the same pods.
func (s PodSelector) String() string {
	text := "namespace " + s.Namespace
	if s.Namespace == "" {
		text = "namespaces {" + s.Namespaces.String() + "}"
	}
	text += ", pods {" + s.Pods.String() + "}"
	if s.Port != nil {
		text += fmt.Sprintf(", port %s/%s=%d", s.Port.Protocol, s.Port.Name, s.Port.Number)
	}
	if s.Network != "" {
		text += ", network " + s.Network
	}
	return text
}

// GroupKey returns the unit of the port group of the pods.
func (s PodSelector) GroupKey() unit.Key { return unit.NewKey(KindPodGroup, selectorHash(s.String())) }

// SetKey returns the unit of the sets of the pods' addresses.
func (s PodSelector) SetKey() unit.Key { return unit.NewKey(KindPodSet, selectorHash(s.String())) }

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
	add := func(c *corev1.Container) {
		for _, p := range c.Ports {
			if p.Name != "" && p.ContainerPort > 0 && p.ContainerPort <= 65535 {
				ports = append(ports, NamedPort{p.Name, cmp.Or(p.Protocol, corev1.ProtocolTCP), uint16(p.ContainerPort)})
			}
		}
	}
	for i := range pod.Spec.InitContainers {
		if policy := pod.Spec.InitContainers[i].RestartPolicy; policy != nil && *policy == corev1.ContainerRestartPolicyAlways {
			add(&pod.Spec.InitContainers[i])
		}
	}
	for i := range pod.Spec.Containers {
		add(&pod.Spec.Containers[i])
	}
	return ports
}

// PodGroupUnit returns a unit with the port group of a selector. Pods add their ports by their own units. A port is
// in the group from the transaction on that creates the later of the two.
func PodGroupUnit(key unit.Key) unit.Unit {
	return unit.Unit{Key: key, Rows: []unit.Row{{Model: &nbdb.PortGroup{UUID: podGroupRef(key).UUID, Name: podGroupName(key)}}}}
}

// PodSetUnit returns a unit with the address sets of a selector, which the pods join in the same way.
func PodSetUnit(key unit.Key) unit.Unit { return AddressSetUnit(key, nil) }

func podGroupName(key unit.Key) string { return names.PodGroup(key.Name()) }

func podGroupRef(key unit.Key) unit.Ref { return portGroupRef(podGroupName(key)) }

// addSelected adds a port and its addresses to the existing groups and sets of its selectors.
func addSelected(u *unit.Unit, port string, addresses []netip.Addr, selected []unit.Key) {
	for _, key := range selected {
		switch key.Kind() {
		case KindPodGroup:
			u.Members = append(u.Members, unit.Membership{Parent: podGroupRef(key), Column: "ports", Element: port, Optional: true})
		case KindPodSet:
			for _, address := range addresses {
				set := unit.Ref{Table: nbdb.AddressSetTable, UUID: addressSetUUID(key, address)}
				u.Members = append(u.Members, unit.Membership{Parent: set, Column: "addresses", Element: address.String(), Optional: true})
			}
		}
	}
}

func (p NamedPort) String() string {
	return string(p.Protocol) + "/" + p.Name + "=" + strconv.Itoa(int(p.Number))
}
