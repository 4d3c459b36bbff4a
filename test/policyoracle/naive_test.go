package policyoracle

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/ovn/names"
	"github.com/weft-network/weft/pkg/ovn/nbdb"
	"github.com/weft-network/weft/pkg/topology"
	"github.com/weft-network/weft/pkg/unit"
)

// naive compiles NetworkPolicies in the simplest way: one rule for each pod and peer, with addresses in the match.
// It tests the oracle, which must find no difference with it, and each of its bugs.
type naive struct {
	bug string
	u   unit.Unit
	c   *Cluster
	on  string // group
	n   int
}

var bugs = []string{"except", "endPort", "names of the subject", "policyTypes", "NotIn", "other namespaces",
	"protocol alone", "no peers means none", "second policy", "priorities",
	"host network", "ports of the other direction", "family", "open connections"}

func (n *naive) compile(c *Cluster) ([]unit.Unit, error) {
	work := naive{bug: n.bug, c: c}
	for i := range c.Pods {
		pod := &c.Pods[i]
		if !facts.WantsPort(pod) {
			continue
		}
		port := names.PodPort(names.DefaultNetwork, pod.Namespace, pod.Name)
		work.on = "group_" + pod.Name
		work.u.Rows = append(work.u.Rows, unit.Row{Model: &nbdb.PortGroup{UUID: work.on, Name: work.on}})
		work.u.Members = append(work.u.Members, unit.Membership{Parent: unit.Ref{UUID: work.on}, Column: "ports",
			Element: topology.PodPortUUID(pod.Namespace, pod.Name, string(pod.UID))})
		work.pod(pod, fmt.Sprintf("%q", port))
	}
	return append(fabric(c, nil), work.u), nil
}

func (n *naive) pod(pod *corev1.Pod, port string) {
	node := slices.IndexFunc(n.c.Nodes, func(node Node) bool { return node.Name == pod.Spec.NodeName })
	for _, a := range n.c.Nodes[node].Management {
		n.acl(nbdb.ACLDirectionToLport, nbdb.ACLActionAllowRelated, 1003, "outport == "+port+" && "+family(a)+".src == "+a.String())
	}
	for i := range n.c.Policies {
		p := &n.c.Policies[i]
		if p.Namespace != pod.Namespace || !n.selects(&p.Spec.PodSelector, pod.Labels) || n.bug == "second policy" && i > 0 {
			continue
		}
		in := len(p.Spec.PolicyTypes) == 0 || slices.Contains(p.Spec.PolicyTypes, networkingv1.PolicyTypeIngress)
		out := len(p.Spec.PolicyTypes) == 0 && len(p.Spec.Egress) > 0 && n.bug != "policyTypes" ||
			slices.Contains(p.Spec.PolicyTypes, networkingv1.PolicyTypeEgress)
		allow := 1002
		if n.bug == "priorities" {
			allow = 1000
		}
		if in {
			n.acl(nbdb.ACLDirectionToLport, nbdb.ACLActionDrop, 1001, "outport == "+port)
			for _, rule := range p.Spec.Ingress {
				for _, match := range n.rule(p, rule.From, rule.Ports, "src", pod) {
					n.acl(nbdb.ACLDirectionToLport, nbdb.ACLActionAllowRelated, allow, "outport == "+port+" && "+match)
				}
			}
		}
		if out {
			n.acl(nbdb.ACLDirectionFromLport, nbdb.ACLActionDrop, 1001, "inport == "+port)
			for _, rule := range p.Spec.Egress {
				for _, match := range n.rule(p, rule.To, rule.Ports, "dst", pod) {
					n.acl(nbdb.ACLDirectionFromLport, nbdb.ACLActionAllowRelated, allow, "inport == "+port+" && "+match)
				}
			}
		}
	}
}

func (n *naive) acl(direction, action string, priority int, match string) {
	n.n++
	acl := &nbdb.ACL{UUID: fmt.Sprint("acl", n.n), Direction: direction, Action: action, Priority: priority, Match: match}
	if n.bug == "open connections" {
		acl.Tier = 2 // without an ACL in the tiers before
	}
	n.u.Rows = append(n.u.Rows, unit.Row{Model: acl})
	n.u.Members = append(n.u.Members, unit.Membership{Parent: unit.Ref{UUID: n.on}, Column: "acls", Element: acl.UUID})
}

// rule returns a match for each peer and port.
func (n *naive) rule(p *networkingv1.NetworkPolicy, peers []networkingv1.NetworkPolicyPeer,
	ports []networkingv1.NetworkPolicyPort, side string, subject *corev1.Pod) (matches []string) {
	if len(peers) == 0 && n.bug == "no peers means none" {
		return nil
	}
	hosts := []string{"ip"}
	if len(peers) > 0 {
		hosts = nil
	}
	for _, peer := range peers {
		hosts = append(hosts, n.peer(p, peer, side)...)
	}
	if n.bug == "ports of the other direction" && side == "dst" {
		ports = nil
	}
	for _, host := range hosts {
		if len(ports) == 0 {
			matches = append(matches, host)
		}
		for _, port := range ports {
			for _, match := range n.port(port, side, subject) {
				matches = append(matches, "("+host+") && "+match)
			}
		}
	}
	return matches
}

func (n *naive) peer(p *networkingv1.NetworkPolicy, peer networkingv1.NetworkPolicyPeer, side string) (matches []string) {
	if b := peer.IPBlock; b != nil {
		network := netip.MustParsePrefix(b.CIDR)
		match := family(network.Addr()) + "." + side + " == " + b.CIDR
		for _, except := range b.Except {
			if n.bug != "except" {
				match += " && " + family(network.Addr()) + "." + side + " != " + except
			}
		}
		if n.bug == "family" && network.Bits() == 0 {
			match = "ip"
		}
		return []string{match}
	}
	for i := range n.c.Pods {
		pod := &n.c.Pods[i]
		namespace := pod.Namespace == p.Namespace || n.bug == "other namespaces"
		if peer.NamespaceSelector != nil {
			namespace = n.selects(peer.NamespaceSelector, n.c.namespace(pod.Namespace).Labels)
		}
		if (pod.Spec.HostNetwork && n.bug != "host network") || !namespace ||
			(peer.PodSelector != nil && !n.selects(peer.PodSelector, pod.Labels)) {
			continue
		}
		for _, a := range addressesOf(pod) {
			matches = append(matches, family(a)+"."+side+" == "+a.String())
		}
	}
	return matches
}

func (n *naive) port(p networkingv1.NetworkPolicyPort, side string, subject *corev1.Pod) (matches []string) {
	protocol := corev1.ProtocolTCP
	if p.Protocol != nil {
		protocol = *p.Protocol
	}
	l4 := strings.ToLower(string(protocol))
	switch {
	case p.Port == nil && n.bug == "protocol alone":
		return []string{"ip"}
	case p.Port == nil:
		return []string{l4}
	case p.EndPort != nil && n.bug != "endPort":
		return []string{fmt.Sprintf("%d <= %s.dst <= %d", p.Port.IntVal, l4, *p.EndPort)}
	case p.Port.Type == intstr.Int:
		return []string{fmt.Sprintf("%s.dst == %d", l4, p.Port.IntVal)}
	}
	for i := range n.c.Pods {
		pod := &n.c.Pods[i]
		if pod.Spec.HostNetwork || side == "src" && pod != subject {
			continue
		}
		for number := range uint16(9000) {
			if !slices.Contains(portNames(pod, protocol, number), p.Port.StrVal) {
				continue
			}
			for _, a := range addressesOf(pod) {
				match := fmt.Sprintf("%s.dst == %d && %s.dst == %v", l4, number, family(a), a)
				if n.bug == "names of the subject" {
					match = fmt.Sprintf("%s.dst == %d", l4, number)
				}
				matches = append(matches, match)
			}
		}
	}
	return matches
}

func (n *naive) selects(s *metav1.LabelSelector, of map[string]string) bool {
	selector, err := metav1.LabelSelectorAsSelector(s)
	if err != nil {
		panic(err)
	}
	if n.bug == "NotIn" {
		for _, r := range s.MatchExpressions {
			if _, has := of[r.Key]; r.Operator == metav1.LabelSelectorOpNotIn && !has {
				return false
			}
		}
	}
	return selector.Matches(labels.Set(of))
}

func family(a netip.Addr) string {
	if a.Is4() {
		return "ip4"
	}
	return "ip6"
}
