package facts

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"go4.org/netipx"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/ovn/ovnexpr"
)

// NetworkPolicy holds the facts for topology.NetworkPolicyUnit.
type NetworkPolicy struct {
	Namespace, Name string
	// Subject selects the pods that the policy isolates.
	Subject PodSelector
	// Ingress and Egress are the allowed traffic to and from them. nil means that the policy does not apply to that
	// direction.
	Ingress, Egress *PolicyRules
	// Logging selects what is logged and counted.
	Logging networkv1alpha1.ACLLogging
}

// PolicyRules are the rules of one direction. Without rules nothing is allowed.
type PolicyRules struct{ Rules []PolicyRule }

// PolicyRule allows traffic with one of the peers on one of the ports.
type PolicyRule struct {
	// Network is the Network of the peers that are pods. Empty means the cluster network.
	Network string
	// Peers are the other end. With Anybody, the other end is arbitrary.
	Anybody bool
	Peers   []PolicyPeer
	// Ports and Named are the ports. AllPorts means all ports of all protocols.
	AllPorts bool
	Ports    []ovnexpr.Ports
	Named    []NamedPort
	// Text is the position of the rule in its policy: "ingress[0]".
	Text string
}

// PolicyPeer selects pods, networks or the addresses of DNS names in canonical form.
type PolicyPeer struct {
	Pods     *PodSelector
	Networks []netip.Prefix
	Domains  []string
}

// Numbers returns the port numbers that the pods of a selector give to a named port.
type Numbers func(pods PodSelector, port NamedPort) []uint16

// ParseNetworkPolicy reads a NetworkPolicy. An unreadable part of a rule is an error that names its field, and allows
// nothing. A policy with an unreadable podSelector isolates every pod of its namespace.
func ParseNetworkPolicy(np *networkingv1.NetworkPolicy, numbers Numbers) (NetworkPolicy, error) {
	facts := NetworkPolicy{Namespace: np.Namespace, Name: np.Name,
		Subject: PodSelector{Namespace: np.Namespace, Pods: labels.Everything()}}
	p := policyParser{facts: &facts, numbers: numbers}
	if subject, err := metav1.LabelSelectorAsSelector(&np.Spec.PodSelector); err != nil {
		p.wrong = append(p.wrong, fmt.Errorf("spec.podSelector: %w", err))
	} else {
		facts.Subject.Pods = subject
	}
	ingress, egress := policyDirections(np)
	if ingress {
		facts.Ingress = &PolicyRules{}
		for i := range np.Spec.Ingress {
			rule := &np.Spec.Ingress[i]
			facts.Ingress.Rules = append(facts.Ingress.Rules, p.rule(fmt.Sprintf("ingress[%d]", i), "from", rule.From, rule.Ports))
		}
	}
	if egress {
		facts.Egress = &PolicyRules{}
		for i := range np.Spec.Egress {
			rule := &np.Spec.Egress[i]
			facts.Egress.Rules = append(facts.Egress.Rules, p.rule(fmt.Sprintf("egress[%d]", i), "to", rule.To, rule.Ports))
		}
	}
	return facts, errors.Join(p.wrong...)
}

// policyDirections returns the directions that a policy applies to. The API server sets policyTypes. If it did not,
// the rules decide.
func policyDirections(np *networkingv1.NetworkPolicy) (ingress, egress bool) {
	if len(np.Spec.PolicyTypes) == 0 {
		return true, len(np.Spec.Egress) > 0
	}
	for _, t := range np.Spec.PolicyTypes {
		ingress = ingress || t == networkingv1.PolicyTypeIngress
		egress = egress || t == networkingv1.PolicyTypeEgress
	}
	return ingress, egress
}

type policyParser struct {
	facts    *NetworkPolicy
	numbers  Numbers
	networks int // of all blocks
	wrong    []error
}

// MaxPolicyNetworks is how many networks the blocks of one policy may be, without their exceptions. An exception of one address leaves
// up to 32 networks for IPv4, and each network is a flow on each node with a pod of the policy.
const MaxPolicyNetworks = 1 << 16

func (p *policyParser) rule(text, peersField string, peers []networkingv1.NetworkPolicyPeer,
	ports []networkingv1.NetworkPolicyPort) PolicyRule {
	rule := PolicyRule{Anybody: len(peers) == 0, AllPorts: len(ports) == 0, Text: text}
	for i := range peers {
		peer, err := p.peer(&peers[i])
		if err != nil {
			p.wrong = append(p.wrong, fmt.Errorf("spec.%s.%s[%d].%w", text, peersField, i, err))
			continue
		}
		rule.Peers = append(rule.Peers, peer)
	}
	for i := range ports {
		if err := p.port(&rule, &ports[i], peersField == "from"); err != nil {
			p.wrong = append(p.wrong, fmt.Errorf("spec.%s.ports[%d].%w", text, i, err))
		}
	}
	return rule
}

func (p *policyParser) peer(peer *networkingv1.NetworkPolicyPeer) (PolicyPeer, error) {
	if peer.IPBlock != nil {
		if peer.PodSelector != nil || peer.NamespaceSelector != nil {
			return PolicyPeer{}, errors.New("ipBlock: a peer with it has neither podSelector nor namespaceSelector")
		}
		networks, err := networksOf(peer.IPBlock)
		if err != nil {
			return PolicyPeer{}, err
		}
		if p.networks += len(networks); p.networks > MaxPolicyNetworks {
			return PolicyPeer{}, fmt.Errorf("ipBlock: without their exceptions, the blocks of the policy are %d networks, more than %d; "+
				"divide the policy, or name fewer and larger exceptions", p.networks, MaxPolicyNetworks)
		}
		return PolicyPeer{Networks: networks}, nil
	}
	if peer.PodSelector == nil && peer.NamespaceSelector == nil {
		return PolicyPeer{}, errors.New("ipBlock: one of ipBlock, podSelector and namespaceSelector is needed")
	}
	pods := PodSelector{Namespace: p.facts.Namespace, Pods: labels.Everything()}
	var err error
	if peer.NamespaceSelector != nil {
		pods.Namespace = ""
		if pods.Namespaces, err = metav1.LabelSelectorAsSelector(peer.NamespaceSelector); err != nil {
			return PolicyPeer{}, fmt.Errorf("namespaceSelector: %w", err)
		}
	}
	if peer.PodSelector != nil {
		if pods.Pods, err = metav1.LabelSelectorAsSelector(peer.PodSelector); err != nil {
			return PolicyPeer{}, fmt.Errorf("podSelector: %w", err)
		}
	}
	return PolicyPeer{Pods: &pods}, nil
}

// networksOf returns the networks of a block without its exceptions, because OVN matches a few networks better than
// many inequalities.
func networksOf(block *networkingv1.IPBlock) ([]netip.Prefix, error) {
	cidr, err := netip.ParsePrefix(block.CIDR)
	if err != nil {
		return nil, fmt.Errorf("ipBlock.cidr: %w", err)
	}
	var set netipx.IPSetBuilder
	set.AddPrefix(cidr.Masked())
	for i, text := range block.Except {
		except, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, fmt.Errorf("ipBlock.except[%d]: %w", i, err)
		}
		set.RemovePrefix(except.Masked())
	}
	left, err := set.IPSet()
	if err != nil {
		return nil, fmt.Errorf("ipBlock: %w", err)
	}
	return left.Prefixes(), nil
}

// port adds a port to a rule.
func (p *policyParser) port(rule *PolicyRule, port *networkingv1.NetworkPolicyPort, ingress bool) error {
	protocol := corev1.ProtocolTCP
	if port.Protocol != nil {
		protocol = *port.Protocol
	}
	if err := checkProtocol(protocol); err != nil {
		return err
	}
	if port.Port == nil {
		if port.EndPort != nil {
			return errors.New("endPort: needs a port that is a number")
		}
		rule.Ports = append(rule.Ports, ovnexpr.Ports{Protocol: protocolName(protocol)})
		return nil
	}
	if port.Port.Type == intstr.String {
		if port.EndPort != nil {
			return errors.New("endPort: needs a port that is a number")
		}
		p.named(rule, NamedPort{Name: port.Port.StrVal, Protocol: protocol}, ingress)
		return nil
	}
	last := port.Port.IntVal
	if port.EndPort != nil {
		last = *port.EndPort
	}
	ports, err := portsOf(protocol, port.Port.IntVal, last)
	if err == nil {
		rule.Ports = append(rule.Ports, ports)
	}
	return err
}

func checkProtocol(protocol corev1.Protocol) error {
	if protocol != corev1.ProtocolTCP && protocol != corev1.ProtocolUDP && protocol != corev1.ProtocolSCTP {
		return fmt.Errorf("protocol: %q is not TCP, UDP or SCTP", protocol)
	}
	return nil
}

func portsOf(protocol corev1.Protocol, first, last int32) (ovnexpr.Ports, error) {
	const highest = 65535
	if first < 1 || last < first || last > highest {
		return ovnexpr.Ports{}, fmt.Errorf("port: %d to %d is not a range in 1..%d", first, last, highest)
	}
	return ovnexpr.Ports{Protocol: protocolName(protocol), First: uint16(first), Last: uint16(last)}, nil
}

// named adds the numbers of a named port. For ingress the subject's pods define them, for egress the pods of the
// peers.
func (p *policyParser) named(rule *PolicyRule, port NamedPort, ingress bool) {
	owners := []PodSelector{p.facts.Subject}
	if !ingress {
		owners = nil
		for _, peer := range rule.Peers {
			if peer.Pods != nil {
				owners = append(owners, *peer.Pods)
			}
		}
		if rule.Anybody || len(rule.Networks()) > 0 {
			owners = append(owners, AllPods())
		}
	}
	known := map[uint16]bool{}
	for _, owner := range owners {
		for _, n := range p.numbers(owner, port) {
			if !known[n] {
				known[n] = true
				rule.Named = append(rule.Named, NamedPort{port.Name, port.Protocol, n})
			}
		}
	}
}

func protocolName(p corev1.Protocol) string { return strings.ToLower(string(p)) }

// Networks returns the networks of all peers.
func (r PolicyRule) Networks() (networks []netip.Prefix) {
	for _, peer := range r.Peers {
		networks = append(networks, peer.Networks...)
	}
	return networks
}
