package policyoracle

import (
	"fmt"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1alpha1 "sigs.k8s.io/network-policy-api/apis/v1alpha1"
	policyv1alpha2 "sigs.k8s.io/network-policy-api/apis/v1alpha2"
)

// Cluster holds policies and the objects that they select.
type Cluster struct {
	Namespaces      []corev1.Namespace
	Nodes           []Node
	Pods            []corev1.Pod
	Policies        []networkingv1.NetworkPolicy
	ClusterPolicies []policyv1alpha2.ClusterNetworkPolicy
	// AdminPolicies and BaselinePolicies are policies of the previous API.
	AdminPolicies    []policyv1alpha1.AdminNetworkPolicy
	BaselinePolicies []policyv1alpha1.BaselineAdminNetworkPolicy
}

// Node is a node of the cluster.
type Node struct {
	Name   string
	Labels map[string]string
	// Addresses are the addresses in the Node, Management the addresses of its management port in the pod network.
	Addresses, Management []netip.Addr
}

// Tuple is the start of a connection. At least one end is a pod.
type Tuple struct {
	From, To End
	Protocol corev1.Protocol
	Port     uint16
}

// End is an end of a connection.
type End struct {
	Address netip.Addr
	Pod     int // index; -1: not a pod
	// Node is the index of the node whose management port has the address, or -1.
	Node int
}

func (e End) text(c *Cluster) string {
	switch {
	case e.Pod >= 0:
		return fmt.Sprintf("%s/%s (%v)", c.Pods[e.Pod].Namespace, c.Pods[e.Pod].Name, e.Address)
	case e.Node >= 0:
		return fmt.Sprintf("node %s (%v)", c.Nodes[e.Node].Name, e.Address)
	}
	return fmt.Sprintf("outside (%v)", e.Address)
}

// Text describes a tuple.
func (c *Cluster) Text(t Tuple) string {
	return fmt.Sprintf("%s -> %s %s:%d", t.From.text(c), t.To.text(c), t.Protocol, t.Port)
}

func (c *Cluster) namespace(name string) *corev1.Namespace {
	for i := range c.Namespaces {
		if c.Namespaces[i].Name == name {
			return &c.Namespaces[i]
		}
	}
	return nil
}

// resident reports whether a tuple's ends are a pod and its own node.
func (c *Cluster) resident(pod, node End) bool {
	return pod.Pod >= 0 && node.Node >= 0 && c.Pods[pod.Pod].Spec.NodeName == c.Nodes[node.Node].Name
}

// portNames are the names that a pod gives to a port.
func portNames(pod *corev1.Pod, protocol corev1.Protocol, number uint16) (names []string) {
	for _, container := range pod.Spec.Containers {
		for _, p := range container.Ports {
			if p.Name != "" && p.ContainerPort == int32(number) && protocolOf(p.Protocol) == protocol {
				names = append(names, p.Name)
			}
		}
	}
	return names
}

// protocolOf returns TCP by default.
func protocolOf(p corev1.Protocol) corev1.Protocol {
	if p == "" {
		return corev1.ProtocolTCP
	}
	return p
}

func addressesOf(pod *corev1.Pod) (addresses []netip.Addr) {
	for _, ip := range pod.Status.PodIPs {
		addresses = append(addresses, netip.MustParseAddr(ip.IP))
	}
	return addresses
}
