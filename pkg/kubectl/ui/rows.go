package ui

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/netip"
	"strings"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/ipam"
	"github.com/weft-network/weft/pkg/ovn/names"
)

// podRow is a pod with its interfaces and ports.
type podRow struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Node      string `json:"node"`
	// State is the phase, or the condition of Weft that fails.
	State   string `json:"state"`
	Message string `json:"message,omitempty"`
	// OnHost means that the pod has its node's network.
	OnHost     bool           `json:"onHost,omitempty"`
	Interfaces []interfaceRow `json:"interfaces"`
	Ports      []string       `json:"ports,omitempty"`
}

// interfaceRow is an interface of a pod.
type interfaceRow struct {
	Network   string   `json:"network"`
	Interface string   `json:"interface"`
	Addresses []string `json:"addresses"`
	MAC       string   `json:"mac,omitempty"`
	// Port is the name of the logical port in OVN.
	Port string `json:"port,omitempty"`
}

// podConditions are the conditions by which Weft says what a pod's network lacks.
var podConditions = []corev1.PodConditionType{networkv1alpha1.PodPortReady, networkv1alpha1.PodRequestsGranted,
	networkv1alpha1.PodNetworksAllocated, networkv1alpha1.PodNetworksAttached, networkv1alpha1.PodHostPortsReady}

// podRowOf returns the row of a pod. networkOf returns the Network of a NetworkAttachmentDefinition, "namespace/name", or "".
func podRowOf(p *corev1.Pod, networkOf func(definition string) string) podRow {
	row := podRow{Namespace: p.Namespace, Name: p.Name, Node: p.Spec.NodeName, State: string(p.Status.Phase), OnHost: p.Spec.HostNetwork,
		Interfaces: interfacesOf(p, networkOf), Ports: portsOf(p)}
	if p.DeletionTimestamp != nil {
		row.State = "Terminating"
	}
	for _, c := range p.Status.Conditions {
		for _, kind := range podConditions {
			if c.Type == kind && c.Status == corev1.ConditionFalse {
				row.State, row.Message = strings.TrimPrefix(string(kind), networkv1alpha1.GroupName+"/")+" is false", c.Message
			}
		}
	}
	return row
}

// interfacesOf returns a pod's interfaces. It reads the VIF record, or derives the interface from the pod's addresses as the
// operator does, because most pods have no record. It adds the interfaces that other plugins report. A pod that has ended
// has no interfaces, because its addresses are free.
func interfacesOf(p *corev1.Pod, networkOf func(definition string) string) []interfaceRow {
	if p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed {
		return []interfaceRow{}
	}
	if p.Spec.HostNetwork {
		return []interfaceRow{{Network: "the node's", Interface: "host", Addresses: addressesOf(p)}}
	}
	all := []interfaceRow{}
	if recorded, err := networkv1alpha1.ParsePodNetworks(p.Annotations[networkv1alpha1.PodNetworksAnnotation]); err == nil {
		for _, n := range recorded {
			row := interfaceRow{Network: n.Name, Interface: n.Interface, MAC: n.MACAddress, Port: n.InterfaceID}
			for _, a := range n.Addresses {
				row.Addresses = append(row.Addresses, a.Addr().String())
			}
			all = append(all, row)
		}
	}
	if len(all) == 0 && len(p.Status.PodIPs) > 0 {
		row := interfaceRow{Network: names.DefaultNetwork, Interface: networkv1alpha1.DefaultInterfaceName, Addresses: addressesOf(p),
			Port: names.PodPort(names.DefaultNetwork, p.Namespace, p.Name)}
		var parsed []netip.Addr
		for _, text := range row.Addresses {
			if a, err := netip.ParseAddr(text); err == nil {
				parsed = append(parsed, a)
			}
		}
		row.MAC = ipam.MAC(parsed).String()
		all = append(all, row)
	}
	return addReported(all, p, networkOf)
}

// addReported adds the interfaces of the annotation network-status that are not known yet. Those on a Network of Weft have a
// logical port.
func addReported(all []interfaceRow, p *corev1.Pod, networkOf func(definition string) string) []interfaceRow {
	var reported []nadv1.NetworkStatus
	if json.Unmarshal([]byte(p.Annotations[nadv1.NetworkStatusAnnot]), &reported) != nil {
		return all
	}
	known := map[string]int{}
	for i, row := range all {
		known[row.Interface] = i
	}
	for _, r := range reported {
		at, ok := known[r.Interface]
		switch {
		case r.Interface == "":
		case !ok:
			row := interfaceRow{Network: r.Name, Interface: r.Interface, Addresses: r.IPs, MAC: r.Mac}
			if row.Addresses == nil {
				row.Addresses = []string{}
			}
			if network := networkOf(r.Name); network != "" {
				row.Network, row.Port = network, names.NetworkPort(network, p.Namespace, p.Name, r.Interface)
			}
			all = append(all, row)
		case r.Mac != "":
			all[at].MAC = r.Mac
		}
	}
	return all
}

func addressesOf(p *corev1.Pod) []string {
	all := []string{}
	for _, ip := range p.Status.PodIPs {
		all = append(all, ip.IP)
	}
	return all
}

// portsOf describes the containers' ports: "http TCP 8080, host port 80".
func portsOf(p *corev1.Pod) (all []string) {
	for _, c := range p.Spec.Containers {
		for _, port := range c.Ports {
			text := strings.TrimSpace(fmt.Sprintf("%s %s %d", port.Name, cmp.Or(port.Protocol, corev1.ProtocolTCP), port.ContainerPort))
			if port.HostPort != 0 {
				text += fmt.Sprintf(", host port %d", port.HostPort)
			}
			all = append(all, text)
		}
	}
	return all
}

// serviceRow is a service.
type serviceRow struct {
	Namespace string   `json:"namespace"`
	Name      string   `json:"name"`
	Type      string   `json:"type"`
	Addresses []string `json:"addresses"`
	Ports     []string `json:"ports"`
}

func serviceRowOf(s *corev1.Service) serviceRow {
	row := serviceRow{Namespace: s.Namespace, Name: s.Name, Type: string(s.Spec.Type), Addresses: []string{}, Ports: []string{}}
	for _, ip := range s.Spec.ClusterIPs {
		if ip == corev1.ClusterIPNone {
			row.Type = "Headless"
			continue
		}
		row.Addresses = append(row.Addresses, ip)
	}
	row.Addresses = append(row.Addresses, s.Spec.ExternalIPs...)
	for _, ingress := range s.Status.LoadBalancer.Ingress {
		row.Addresses = append(row.Addresses, ingress.IP)
	}
	for _, p := range s.Spec.Ports {
		text := fmt.Sprintf("%s %d", cmp.Or(p.Protocol, corev1.ProtocolTCP), p.Port)
		if p.NodePort != 0 {
			text += fmt.Sprintf(", node port %d", p.NodePort)
		}
		row.Ports = append(row.Ports, text)
	}
	return row
}

// readyOf returns the condition Ready and its message.
func readyOf(conditions []metav1.Condition) (state, message string) {
	return stateOf(conditions, networkv1alpha1.ConditionReady)
}

// stateOf returns the state of a condition, "Assigned" or "Not assigned", and its message.
func stateOf(conditions []metav1.Condition, kind string) (state, message string) {
	c := meta.FindStatusCondition(conditions, kind)
	switch {
	case c == nil:
		return "Unknown", "not reported yet"
	case c.Status == metav1.ConditionTrue:
		return kind, c.Message
	}
	return "Not " + strings.ToLower(kind), c.Message
}
