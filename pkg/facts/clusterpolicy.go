package facts

import (
	"errors"
	"fmt"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	policyv1alpha1 "sigs.k8s.io/network-policy-api/apis/v1alpha1"
	policyv1alpha2 "sigs.k8s.io/network-policy-api/apis/v1alpha2"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/ovn/ovnexpr"
)

// Kinds of cluster-wide policies. They are the names of their kinds in lower case.
const (
	KindClusterNetworkPolicy       = "clusternetworkpolicy"
	KindAdminNetworkPolicy         = "adminnetworkpolicy"
	KindBaselineAdminNetworkPolicy = "baselineadminnetworkpolicy"
)

const (
	// LastPriority is the last priority of a cluster-wide policy. The first is 0.
	LastPriority = 1000
	// PolicyPlaces is the number of places for rules that each priority has in each direction.
	PolicyPlaces = 31
	// baselineAdminPlaces is the number of rules that the API allows in the BaselineAdminNetworkPolicy.
	baselineAdminPlaces = 100
)

// Action is what a rule of a cluster-wide policy does with a matching packet.
type Action string

const (
	// Accept accepts the packet.
	Accept Action = "accept"
	// Deny drops the packet.
	Deny Action = "deny"
	// Pass leaves the decision to later tiers.
	Pass Action = "pass"
)

// ClusterPolicy holds the facts for topology.ClusterPolicyUnit.
type ClusterPolicy struct {
	// Kind is KindClusterNetworkPolicy, KindAdminNetworkPolicy or KindBaselineAdminNetworkPolicy.
	Kind, Name string
	// Baseline policies decide where no NetworkPolicy does. The others decide before NetworkPolicies.
	Baseline bool
	// Priority is 0 to 1000, and the lowest decides first. The BaselineAdminNetworkPolicy, of which at most one
	// exists, has no priority.
	Priority int
	// Subject selects the pods that the policy applies to.
	Subject PodSelector
	// Ingress and Egress are in order. The first matching rule decides.
	Ingress, Egress []ClusterPolicyRule
	// Logging selects what is logged and counted.
	Logging networkv1alpha1.ACLLogging
}

// ClusterPolicyRule applies an action to what a rule matches.
type ClusterPolicyRule struct {
	PolicyRule
	Action Action
}

// NodesOf returns the addresses of the nodes that a selector selects.
type NodesOf func(selector labels.Selector) []netip.Addr

// ParseClusterPolicy reads a ClusterNetworkPolicy, an AdminNetworkPolicy or a BaselineAdminNetworkPolicy. An
// unreadable rule is an error that names its field, and fails closed: an accepting rule matches nothing, and any
// other rule denies everything. A policy whose subject or priority is unreadable has no rules.
func ParseClusterPolicy(policy metav1.Object, numbers Numbers, nodes NodesOf) (ClusterPolicy, error) {
	var facts ClusterPolicy
	var spec clusterPolicySpec
	var err error
	switch policy := policy.(type) {
	case *policyv1alpha2.ClusterNetworkPolicy:
		facts, spec, err = readClusterNetworkPolicy(policy)
	case *policyv1alpha1.AdminNetworkPolicy:
		facts, spec = readAdminNetworkPolicy(policy)
	case *policyv1alpha1.BaselineAdminNetworkPolicy:
		facts, spec = readBaselineAdminNetworkPolicy(policy)
	default:
		err = fmt.Errorf("%T is not a cluster-wide policy", policy)
	}
	if err != nil {
		return facts, err
	}
	return facts.parse(spec, numbers, nodes)
}

// clusterPolicySpec is the common form of the API's versions.
type clusterPolicySpec struct {
	subject         podsSpec
	ingress, egress []clusterRuleSpec
	actions         map[string]Action
	ports           string // name of the ports' field
}

type clusterRuleSpec struct {
	action string
	peers  []clusterPeerSpec
	ports  []clusterPortSpec
}

// podsSpec selects pods by their namespaces, or by their namespaces and their own labels.
type podsSpec struct {
	namespaces *metav1.LabelSelector
	pods       *policyv1alpha2.NamespacedPod
}

type clusterPeerSpec struct {
	podsSpec
	nodes    *metav1.LabelSelector
	networks []string
	domains  []string
}

// clusterPortSpec is a named port, all ports or a range of ports of a protocol, or an unsupported field.
type clusterPortSpec struct {
	name        string
	protocol    corev1.Protocol
	all         bool
	first, last int32
}

func texts[T ~string](list []T) (all []string) {
	for _, text := range list {
		all = append(all, string(text))
	}
	return all
}

func (p ClusterPolicy) parse(spec clusterPolicySpec, numbers Numbers, nodes NodesOf) (ClusterPolicy, error) {
	subject, err := spec.subject.selector()
	switch {
	case err != nil:
		err = fmt.Errorf("spec.subject.%w", err)
	case p.Priority < 0 || p.Priority > LastPriority:
		err = fmt.Errorf("spec.priority: %d is not in 0..%d", p.Priority, LastPriority)
	}
	if err != nil {
		return p, err
	}
	p.Subject = subject
	reader := clusterPolicyParser{clusterPolicySpec: spec,
		policyParser: policyParser{facts: &NetworkPolicy{Subject: subject}, numbers: numbers}, nodes: nodes}
	for i, rule := range spec.ingress {
		p.Ingress = append(p.Ingress, reader.rule(fmt.Sprintf("ingress[%d]", i), "from", rule))
	}
	for i, rule := range spec.egress {
		p.Egress = append(p.Egress, reader.rule(fmt.Sprintf("egress[%d]", i), "to", rule))
	}
	for _, rules := range [][]ClusterPolicyRule{p.Ingress, p.Egress} {
		if _, used := p.Places(rules); used > p.MostPlaces() {
			p.Ingress, p.Egress = nil, nil
			return p,
				fmt.Errorf(
					"spec: the rules of a direction change their action more than %d times, for which OVN has no priorities",
					p.MostPlaces()-1)
		}
	}
	return p, errors.Join(reader.wrong...)
}

type clusterPolicyParser struct {
	policyParser
	clusterPolicySpec
	nodes NodesOf
}

// rule reads a rule. field is "from" or "to", the name of the field with its peers.
func (p *clusterPolicyParser) rule(text, field string, spec clusterRuleSpec) ClusterPolicyRule {
	action := p.actions[spec.action]
	rule := ClusterPolicyRule{PolicyRule: PolicyRule{AllPorts: len(spec.ports) == 0, Text: text}, Action: action}
	var wrong []error
	if action == "" {
		wrong = append(wrong, fmt.Errorf("action: %q is not an action of this tier", spec.action))
	}
	if len(spec.peers) == 0 {
		wrong = append(wrong, fmt.Errorf("%s: a peer is needed", field))
	}
	for i, peer := range spec.peers {
		read, err := p.peer(peer)
		if err != nil {
			wrong = append(wrong, fmt.Errorf("%s[%d].%w", field, i, err))
			continue
		}
		rule.Peers = append(rule.Peers, read)
	}
	for i, port := range spec.ports {
		if err := p.port(&rule.PolicyRule, port, field == "from"); err != nil {
			wrong = append(wrong, fmt.Errorf("%s[%d]: %w", p.ports, i, err))
		}
	}
	if len(wrong) == 0 {
		return rule
	}
	for _, err := range wrong {
		p.wrong = append(p.wrong, fmt.Errorf("spec.%s.%w", text, err))
	}
	if action == Accept && spec.action != pass {
		return ClusterPolicyRule{PolicyRule: PolicyRule{Text: text}, Action: action}
	}
	return ClusterPolicyRule{PolicyRule: PolicyRule{Anybody: true, AllPorts: true, Text: text}, Action: Deny}
}

func (p *clusterPolicyParser) peer(spec clusterPeerSpec) (peer PolicyPeer, err error) {
	switch {
	case len(spec.domains) > 0:
		for i, text := range spec.domains {
			if err := CheckDNSName(text); err != nil {
				return peer, fmt.Errorf("domainNames[%d]: %w", i, err)
			}
			peer.Domains = append(peer.Domains, CanonicalName(text))
		}
		return peer, nil
	case spec.nodes != nil:
		selector, err := metav1.LabelSelectorAsSelector(spec.nodes)
		if err != nil {
			return peer, fmt.Errorf("nodes: %w", err)
		}
		for _, a := range p.nodes(selector) {
			peer.Networks = append(peer.Networks, netip.PrefixFrom(a, a.BitLen()))
		}
		return peer, nil
	case len(spec.networks) > 0:
		for i, text := range spec.networks {
			network, err := netip.ParsePrefix(text)
			if err != nil {
				return peer, fmt.Errorf("networks[%d]: %w", i, err)
			}
			peer.Networks = append(peer.Networks, network.Masked())
		}
		return peer, nil
	}
	pods, err := spec.selector()
	return PolicyPeer{Pods: &pods}, err
}

// port adds a port to a rule. A name applies to all protocols.
func (p *clusterPolicyParser) port(rule *PolicyRule, spec clusterPortSpec, ingress bool) error {
	switch {
	case spec.name != "":
		for _, protocol := range []corev1.Protocol{corev1.ProtocolTCP, corev1.ProtocolUDP, corev1.ProtocolSCTP} {
			p.named(rule, NamedPort{Name: spec.name, Protocol: protocol}, ingress)
		}
		return nil
	case spec.protocol == "":
		return errors.New("no supported field is set")
	}
	if err := checkProtocol(spec.protocol); err != nil {
		return err
	}
	if spec.all {
		rule.Ports = append(rule.Ports, ovnexpr.Ports{Protocol: protocolName(spec.protocol)})
		return nil
	}
	ports, err := portsOf(spec.protocol, spec.first, spec.last)
	if err == nil {
		rule.Ports = append(rule.Ports, ports)
	}
	return err
}

// selector reads a subject, or a peer that consists of pods.
func (s podsSpec) selector() (selector PodSelector, err error) {
	selector = PodSelector{Namespaces: labels.Nothing(), Pods: labels.Everything()}
	namespaces, field := s.namespaces, "namespaces"
	if s.pods != nil {
		if selector.Pods, err = metav1.LabelSelectorAsSelector(&s.pods.PodSelector); err != nil {
			return selector, fmt.Errorf("pods.podSelector: %w", err)
		}
		namespaces, field = &s.pods.NamespaceSelector, "pods.namespaceSelector"
	}
	if namespaces == nil {
		return selector, errors.New("namespaces, pods: exactly one supported field is needed")
	}
	if selector.Namespaces, err = metav1.LabelSelectorAsSelector(namespaces); err != nil {
		return selector, fmt.Errorf("%s: %w", field, err)
	}
	return selector, nil
}

// Places returns the places of rules, from 0 for the first. Each rule has its own place or, if places are scarce,
// adjacent rules with the same action share one.
func (p ClusterPolicy) Places(rules []ClusterPolicyRule) (places []int, used int) {
	for i, rule := range rules {
		if i > 0 && (len(rules) <= p.MostPlaces() || rule.Action != rules[i-1].Action) {
			used++
		}
		places = append(places, used)
	}
	return places, used + 1
}

// MostPlaces returns the number of places that a policy has in each direction.
func (p ClusterPolicy) MostPlaces() int {
	if p.Kind == KindBaselineAdminNetworkPolicy {
		return baselineAdminPlaces
	}
	return PolicyPlaces
}
