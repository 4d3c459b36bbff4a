package policyoracle

import (
	"fmt"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

func (s source) policies(c *Cluster) (policies []networkingv1.NetworkPolicy) {
	for n := range s.IntN(6) {
		p := networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: oneOf(s, c.Namespaces...).Name,
			Name: fmt.Sprintf("policy%d", n+1)}}
		p.Spec.PodSelector = s.selector()
		p.Spec.PolicyTypes = oneOf(s, nil, []networkingv1.PolicyType{networkingv1.PolicyTypeIngress},
			[]networkingv1.PolicyType{networkingv1.PolicyTypeEgress},
			[]networkingv1.PolicyType{networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress})
		for range s.IntN(4) {
			p.Spec.Ingress = append(p.Spec.Ingress, networkingv1.NetworkPolicyIngressRule{From: s.peers(c), Ports: s.ports()})
		}
		for range s.IntN(4) {
			p.Spec.Egress = append(p.Spec.Egress, networkingv1.NetworkPolicyEgressRule{To: s.peers(c), Ports: s.ports()})
		}
		policies = append(policies, p)
	}
	return policies
}

func (s source) peers(c *Cluster) (peers []networkingv1.NetworkPolicyPeer) {
	for range oneOf(s, 0, 1, 1, 2, 3) {
		var peer networkingv1.NetworkPolicyPeer
		kind := s.IntN(4)
		if kind == 0 {
			peers = append(peers, networkingv1.NetworkPolicyPeer{IPBlock: s.block(c)})
			continue
		}
		if kind != 1 {
			selector := s.selector()
			peer.PodSelector = &selector
		}
		if kind != 2 {
			selector := s.namespaceSelector(c)
			peer.NamespaceSelector = &selector
		}
		peers = append(peers, peer)
	}
	return peers
}

// namespaceSelector often selects by name, which is a label of every namespace.
func (s source) namespaceSelector(c *Cluster) metav1.LabelSelector {
	if s.one(3) {
		return metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: oneOf(s, c.Namespaces...).Name}}
	}
	return s.selector()
}

// block returns a network around an existing address, with exceptions around existing addresses.
func (s source) block(c *Cluster) *networkingv1.IPBlock {
	ends := append(c.ends(true), c.ends(false)...)
	around := oneOf(s, ends...).Address
	bits := s.IntN(around.BitLen() + 1)
	switch s.IntN(6) {
	case 0:
		bits = 0 // everything, the most frequent block
	case 1, 2, 3:
		bits = around.BitLen() - s.IntN(17)
	}
	network := netip.PrefixFrom(around, bits)
	if !s.one(4) { // the API server accepts networks with host bits too
		network = network.Masked()
	}
	block := &networkingv1.IPBlock{CIDR: network.String()}
	for range s.IntN(3) {
		inside := oneOf(s, ends...).Address
		if network.Contains(inside) && bits < inside.BitLen() {
			except := netip.PrefixFrom(inside, bits+1+s.IntN(inside.BitLen()-bits))
			block.Except = append(block.Except, except.Masked().String())
		}
	}
	return block
}

func (s source) ports() (ports []networkingv1.NetworkPolicyPort) {
	for range oneOf(s, 0, 0, 1, 1, 2, 3) {
		var p networkingv1.NetworkPolicyPort
		if !s.one(3) {
			protocol := oneOf(s, protocols...)
			p.Protocol = &protocol
		}
		number := intstr.FromInt32(oneOf(s, portNumbers...))
		switch s.IntN(5) {
		case 0: // only the protocol
		case 1, 2:
			name := intstr.FromString(oneOf(s, nameList...))
			p.Port = &name
		case 3:
			last := number.IntVal + int32(s.IntN(3))*int32(s.IntN(8000))
			p.Port, p.EndPort = &number, &last
		default:
			p.Port = &number
		}
		ports = append(ports, p)
	}
	return ports
}
