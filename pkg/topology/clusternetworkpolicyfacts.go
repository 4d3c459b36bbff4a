package topology

import (
	"errors"
	"fmt"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	policyv1alpha2 "sigs.k8s.io/network-policy-api/apis/v1alpha2"

	"github.com/weft-network/weft/pkg/nbdb"
	"github.com/weft-network/weft/pkg/ovnexpr"
)

// NodesOf finds the addresses of the nodes that a selector selects.
type NodesOf func(selector labels.Selector) []netip.Addr

// ParseClusterNetworkPolicy reads the facts for ClusterNetworkPolicyUnit. A rule that cannot be read is an error that names its field, and fails
// closed: if it accepts, it matches nothing, and otherwise it denies everything. A policy whose subject or place among others cannot be read has no
// rules.
func ParseClusterNetworkPolicy(policy *policyv1alpha2.ClusterNetworkPolicy, numbers Numbers, nodes NodesOf) (ClusterNetworkPolicy, error) {
	spec := &policy.Spec
	facts := ClusterNetworkPolicy{Name: policy.Name, Baseline: spec.Tier == policyv1alpha2.BaselineTier, Priority: int(spec.Priority)}
	subject, err := podsOf(spec.Subject.Namespaces, spec.Subject.Pods)
	switch {
	case err != nil:
		err = fmt.Errorf("spec.subject.%w", err)
	case !facts.Baseline && spec.Tier != policyv1alpha2.AdminTier:
		err = fmt.Errorf("spec.tier: %q is not Admin or Baseline", spec.Tier)
	case facts.Priority < 0 || facts.Priority > lastClusterPriority:
		err = fmt.Errorf("spec.priority: %d is not in 0..%d", facts.Priority, lastClusterPriority)
	case max(len(spec.Ingress), len(spec.Egress)) > clusterPolicyRules:
		err = fmt.Errorf("spec: more than %d rules of a direction", clusterPolicyRules)
	}
	if err != nil {
		return facts, err
	}
	facts.Subject = subject
	p := clusterPolicyParser{facts: &facts, policyParser: policyParser{facts: &NetworkPolicy{Subject: subject}, numbers: numbers}, nodes: nodes}
	for i := range spec.Ingress {
		facts.Ingress = append(facts.Ingress, p.ingress(fmt.Sprintf("ingress[%d]", i), &spec.Ingress[i]))
	}
	for i := range spec.Egress {
		facts.Egress = append(facts.Egress, p.egress(fmt.Sprintf("egress[%d]", i), &spec.Egress[i]))
	}
	return facts, errors.Join(p.wrong...)
}

type clusterPolicyParser struct {
	policyParser
	facts *ClusterNetworkPolicy
	nodes NodesOf
}

func (p *clusterPolicyParser) ingress(text string, rule *policyv1alpha2.ClusterNetworkPolicyIngressRule) ClusterPolicyRule {
	var peers []PolicyPeer
	var wrong []error
	for i, from := range rule.From {
		pods, err := podsOf(from.Namespaces, from.Pods)
		if err != nil {
			wrong = append(wrong, fmt.Errorf("from[%d].%w", i, err))
			continue
		}
		peers = append(peers, PolicyPeer{Pods: &pods})
	}
	return p.rule(text, rule.Action, peers, rule.Protocols, true, wrong)
}

func (p *clusterPolicyParser) egress(text string, rule *policyv1alpha2.ClusterNetworkPolicyEgressRule) ClusterPolicyRule {
	var peers []PolicyPeer
	var wrong []error
	for i := range rule.To {
		peer, err := p.destination(&rule.To[i])
		if err != nil {
			wrong = append(wrong, fmt.Errorf("to[%d].%w", i, err))
			continue
		}
		peers = append(peers, peer)
	}
	return p.rule(text, rule.Action, peers, rule.Protocols, false, wrong)
}

func (p *clusterPolicyParser) destination(to *policyv1alpha2.ClusterNetworkPolicyEgressPeer) (peer PolicyPeer, err error) {
	switch {
	case len(to.DomainNames) > 0:
		return peer, errors.New("domainNames: not supported")
	case to.Nodes != nil:
		selector, err := metav1.LabelSelectorAsSelector(to.Nodes)
		if err != nil {
			return peer, fmt.Errorf("nodes: %w", err)
		}
		for _, a := range p.nodes(selector) {
			peer.Networks = append(peer.Networks, netip.PrefixFrom(a, a.BitLen()))
		}
		return peer, nil
	case len(to.Networks) > 0:
		for i, text := range to.Networks {
			network, err := netip.ParsePrefix(string(text))
			if err != nil {
				return peer, fmt.Errorf("networks[%d]: %w", i, err)
			}
			peer.Networks = append(peer.Networks, network.Masked())
		}
		return peer, nil
	}
	pods, err := podsOf(to.Namespaces, to.Pods)
	return PolicyPeer{Pods: &pods}, err
}

// rule makes one of what was read; wrong are the peers that could not be.
func (p *clusterPolicyParser) rule(text string, action policyv1alpha2.ClusterNetworkPolicyRuleAction, peers []PolicyPeer, protocols []policyv1alpha2.ClusterNetworkPolicyProtocol, ingress bool, wrong []error) ClusterPolicyRule {
	rule := ClusterPolicyRule{PolicyRule: PolicyRule{Peers: peers, AllPorts: len(protocols) == 0, Text: text}, Action: p.action(action)}
	if len(peers) == 0 && len(wrong) == 0 {
		wrong = append(wrong, errors.New("from, to: a peer is needed"))
	}
	if rule.Action == "" {
		wrong = append(wrong, fmt.Errorf("action: %q is not Accept, Deny or Pass", action))
	}
	for i := range protocols {
		if err := p.protocol(&rule.PolicyRule, &protocols[i], ingress); err != nil {
			wrong = append(wrong, fmt.Errorf("protocols[%d].%w", i, err))
		}
	}
	if len(wrong) == 0 {
		return rule
	}
	for _, err := range wrong {
		p.wrong = append(p.wrong, fmt.Errorf("spec.%s.%w", text, err))
	}
	if action == policyv1alpha2.ClusterNetworkPolicyRuleActionAccept {
		return ClusterPolicyRule{PolicyRule: PolicyRule{Text: text}, Action: rule.Action}
	}
	return ClusterPolicyRule{PolicyRule: PolicyRule{Anybody: true, AllPorts: true, Text: text}, Action: nbdb.ACLActionDrop}
}

// action is what a rule does. Behind the baseline tier there is nothing: to pass is to accept there.
func (p *clusterPolicyParser) action(action policyv1alpha2.ClusterNetworkPolicyRuleAction) nbdb.ACLAction {
	switch action {
	case policyv1alpha2.ClusterNetworkPolicyRuleActionDeny:
		return nbdb.ACLActionDrop
	case policyv1alpha2.ClusterNetworkPolicyRuleActionPass:
		if p.facts.Baseline {
			return nbdb.ACLActionAllowRelated
		}
		return nbdb.ACLActionPass
	case policyv1alpha2.ClusterNetworkPolicyRuleActionAccept:
		return nbdb.ACLActionAllowRelated
	}
	return ""
}

func (p *clusterPolicyParser) protocol(rule *PolicyRule, protocol *policyv1alpha2.ClusterNetworkPolicyProtocol, ingress bool) error {
	switch {
	case protocol.TCP != nil:
		return addPort(rule, corev1.ProtocolTCP, protocol.TCP.DestinationPort)
	case protocol.UDP != nil:
		return addPort(rule, corev1.ProtocolUDP, protocol.UDP.DestinationPort)
	case protocol.SCTP != nil:
		return addPort(rule, corev1.ProtocolSCTP, protocol.SCTP.DestinationPort)
	case protocol.DestinationNamedPort == "":
		return errors.New("tcp, udp, sctp, destinationNamedPort: one is needed")
	}
	for _, transport := range []corev1.Protocol{corev1.ProtocolTCP, corev1.ProtocolUDP, corev1.ProtocolSCTP} {
		p.named(rule, NamedPort{Name: protocol.DestinationNamedPort, Protocol: transport}, ingress)
	}
	return nil
}

func addPort(rule *PolicyRule, protocol corev1.Protocol, port *policyv1alpha2.Port) error {
	ports := ovnexpr.Ports{Protocol: protocolName(protocol)}
	if port != nil {
		first, last := port.Number, port.Number
		if port.Range != nil {
			first, last = port.Range.Start, port.Range.End
		}
		const highest = 65535
		if first < 1 || last < first || last > highest {
			return fmt.Errorf("%s.destinationPort: %d to %d is no range in 1..%d", ports.Protocol, first, last, highest)
		}
		ports.First, ports.Last = uint16(first), uint16(last)
	}
	rule.Ports = append(rule.Ports, ports)
	return nil
}

// podsOf reads a subject or a peer that is pods.
func podsOf(namespaces *metav1.LabelSelector, pods *policyv1alpha2.NamespacedPod) (selector PodSelector, err error) {
	selector = PodSelector{Namespaces: labels.Nothing(), Pods: labels.Everything()}
	field := "namespaces"
	if pods != nil {
		if selector.Pods, err = metav1.LabelSelectorAsSelector(&pods.PodSelector); err != nil {
			return selector, fmt.Errorf("pods.podSelector: %w", err)
		}
		namespaces, field = &pods.NamespaceSelector, "pods.namespaceSelector"
	}
	if namespaces == nil {
		return selector, errors.New("namespaces, pods: one field that is known here is needed")
	}
	if selector.Namespaces, err = metav1.LabelSelectorAsSelector(namespaces); err != nil {
		return selector, fmt.Errorf("%s: %w", field, err)
	}
	return selector, nil
}
