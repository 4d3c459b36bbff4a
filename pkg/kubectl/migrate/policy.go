package migrate

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	policyv1alpha2 "sigs.k8s.io/network-policy-api/apis/v1alpha2"
)

var networkPolicyKind = schema.GroupKind{Group: networkingv1.GroupName, Kind: "NetworkPolicy"}

// policy is a policy of another network in terms that NetworkPolicies and ClusterNetworkPolicies share.
type policy struct {
	name string
	// namespace is empty for a policy of the whole cluster, whose namespaces are selected by namespaces.
	namespace  string
	pods       metav1.LabelSelector
	namespaces metav1.LabelSelector
	rules      map[networkingv1.PolicyType][]policyRule
	// isolated lists the directions in which pods may do only what a rule allows.
	isolated []networkingv1.PolicyType
}

// directions are the directions of policies.
var directions = []networkingv1.PolicyType{networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress}

// action is what a rule does with a packet.
type action string

const (
	allow action = "Allow"
	deny  action = "Deny"
	pass  action = "Pass"
)

// policyRule is a rule. Without peers it is about all peers, without ports about all ports.
type policyRule struct {
	action action
	peers  []policyPeer
	ports  []networkingv1.NetworkPolicyPort
}

func (r policyRule) all() bool { return len(r.peers) == 0 && len(r.ports) == 0 }

// policyPeer is a set of pods, or a block of addresses.
type policyPeer struct {
	pods metav1.LabelSelector
	// namespaces selects the pods' namespaces. If it is nil, they are in the policy's own namespace.
	namespaces *metav1.LabelSelector
	block      *networkingv1.IPBlock
}

// simplify removes what follows a rule about all packets, and a last rule that denies all, which isolation does anyway.
func (p *policy) simplify() {
	for _, d := range directions {
		rules := p.rules[d]
		if n := slices.IndexFunc(rules, policyRule.all); n >= 0 && rules[n].action != pass {
			rules = rules[:n+1]
			if rules[n].action == deny {
				rules = rules[:n]
			}
		}
		p.rules[d] = rules
	}
}

// onlyAllows reports whether no rule denies or passes.
func (p *policy) onlyAllows() bool {
	for _, rules := range p.rules {
		if slices.ContainsFunc(rules, func(r policyRule) bool { return r.action != allow }) {
			return false
		}
	}
	return true
}

// networkPolicy returns a NetworkPolicy with the rules that allow.
func (p *policy) networkPolicy(namespace string) *networkingv1.NetworkPolicy {
	made := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: p.name}}
	made.SetGroupVersionKind(networkingv1.SchemeGroupVersion.WithKind("NetworkPolicy"))
	made.Spec.PodSelector, made.Spec.PolicyTypes = p.pods, p.isolated
	for _, r := range p.rules[networkingv1.PolicyTypeIngress] {
		made.Spec.Ingress = append(made.Spec.Ingress, networkingv1.NetworkPolicyIngressRule{From: peersOf(r), Ports: r.ports})
	}
	for _, r := range p.rules[networkingv1.PolicyTypeEgress] {
		made.Spec.Egress = append(made.Spec.Egress, networkingv1.NetworkPolicyEgressRule{To: peersOf(r), Ports: r.ports})
	}
	return made
}

func peersOf(r policyRule) (peers []networkingv1.NetworkPolicyPeer) {
	for _, p := range r.peers {
		if p.block != nil {
			peers = append(peers, networkingv1.NetworkPolicyPeer{IPBlock: p.block})
			continue
		}
		peers = append(peers, networkingv1.NetworkPolicyPeer{PodSelector: &p.pods, NamespaceSelector: p.namespaces})
	}
	return peers
}

// clusterPolicy returns a ClusterNetworkPolicy of the tier Admin with all rules, or says why it is impossible.
func (p *policy) clusterPolicy(name string, priority int32) (*policyv1alpha2.ClusterNetworkPolicy, error) {
	made := &policyv1alpha2.ClusterNetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}}
	made.SetGroupVersionKind(schema.GroupVersion(policyv1alpha2.GroupVersion).WithKind("ClusterNetworkPolicy"))
	made.Spec.Tier, made.Spec.Priority = policyv1alpha2.AdminTier, priority
	namespaces := p.namespaces
	if p.namespace != "" {
		namespaces = *inNamespaces(p.namespace)
	}
	made.Spec.Subject.Pods = &policyv1alpha2.NamespacedPod{NamespaceSelector: namespaces, PodSelector: p.pods}
	for n, r := range p.rules[networkingv1.PolicyTypeIngress] {
		rule := policyv1alpha2.ClusterNetworkPolicyIngressRule{Action: clusterAction(r.action)}
		for _, peer := range r.peers {
			if peer.block != nil {
				return nil, fmt.Errorf("ingress[%d] is about addresses, which ClusterNetworkPolicies do not know as sources", n)
			}
			rule.From = append(rule.From, policyv1alpha2.ClusterNetworkPolicyIngressPeer{Pods: p.clusterPods(peer)})
		}
		if len(rule.From) == 0 {
			return nil, fmt.Errorf("ingress[%d] is about all sources; those of ClusterNetworkPolicies are pods", n)
		}
		var err error
		if rule.Protocols, err = clusterProtocols(r.ports); err != nil {
			return nil, fmt.Errorf("ingress[%d]: %w", n, err)
		}
		made.Spec.Ingress = append(made.Spec.Ingress, rule)
	}
	for n, r := range p.rules[networkingv1.PolicyTypeEgress] {
		rule := policyv1alpha2.ClusterNetworkPolicyEgressRule{Action: clusterAction(r.action)}
		to, err := p.clusterDestinations(r)
		rule.To = to
		if err == nil {
			rule.Protocols, err = clusterProtocols(r.ports)
		}
		if err != nil {
			return nil, fmt.Errorf("egress[%d]: %w", n, err)
		}
		made.Spec.Egress = append(made.Spec.Egress, rule)
	}
	return made, nil
}

func clusterAction(a action) policyv1alpha2.ClusterNetworkPolicyRuleAction {
	if a == allow {
		return policyv1alpha2.ClusterNetworkPolicyRuleActionAccept
	}
	return policyv1alpha2.ClusterNetworkPolicyRuleAction(a)
}

func (p *policy) clusterPods(peer policyPeer) *policyv1alpha2.NamespacedPod {
	namespaces := peer.namespaces
	if namespaces == nil {
		namespaces = inNamespaces(p.namespace)
	}
	return &policyv1alpha2.NamespacedPod{NamespaceSelector: *namespaces, PodSelector: peer.pods}
}

// clusterDestinations returns the peers of an egress rule. All peers are all networks.
func (p *policy) clusterDestinations(r policyRule) (to []policyv1alpha2.ClusterNetworkPolicyEgressPeer, err error) {
	if len(r.peers) == 0 {
		return []policyv1alpha2.ClusterNetworkPolicyEgressPeer{{Networks: []policyv1alpha2.CIDR{"0.0.0.0/0", "::/0"}}}, nil
	}
	var networks []policyv1alpha2.CIDR
	for _, peer := range r.peers {
		switch {
		case peer.block == nil:
			to = append(to, policyv1alpha2.ClusterNetworkPolicyEgressPeer{Pods: p.clusterPods(peer)})
		case len(peer.block.Except) > 0:
			return nil, errors.New("networks of ClusterNetworkPolicies have no exceptions")
		default:
			networks = append(networks, policyv1alpha2.CIDR(peer.block.CIDR))
		}
	}
	for chunk := range slices.Chunk(networks, 25) { // the most that a peer can have
		to = append(to, policyv1alpha2.ClusterNetworkPolicyEgressPeer{Networks: chunk})
	}
	if len(to) > 25 {
		return nil, errors.New("a rule of a ClusterNetworkPolicy has at most 25 peers")
	}
	return to, nil
}

// clusterProtocols returns the ports of a rule of a ClusterNetworkPolicy.
func clusterProtocols(ports []networkingv1.NetworkPolicyPort) (protocols []policyv1alpha2.ClusterNetworkPolicyProtocol, err error) {
	for _, port := range ports {
		var of policyv1alpha2.ClusterNetworkPolicyProtocol
		var number *policyv1alpha2.Port
		switch {
		case port.Port == nil: // all ports of the protocol
			number = &policyv1alpha2.Port{Range: &policyv1alpha2.PortRange{Start: 1, End: 65535}}
		case port.Port.Type == intstr.String:
			protocols = append(protocols, policyv1alpha2.ClusterNetworkPolicyProtocol{DestinationNamedPort: port.Port.StrVal})
			continue
		case port.EndPort != nil:
			number = &policyv1alpha2.Port{Range: &policyv1alpha2.PortRange{Start: port.Port.IntVal, End: *port.EndPort}}
		default:
			number = &policyv1alpha2.Port{Number: port.Port.IntVal}
		}
		switch *port.Protocol {
		case corev1.ProtocolTCP:
			of.TCP = &policyv1alpha2.ClusterNetworkPolicyProtocolTCP{DestinationPort: number}
		case corev1.ProtocolUDP:
			of.UDP = &policyv1alpha2.ClusterNetworkPolicyProtocolUDP{DestinationPort: number}
		case corev1.ProtocolSCTP:
			of.SCTP = &policyv1alpha2.ClusterNetworkPolicyProtocolSCTP{DestinationPort: number}
		}
		protocols = append(protocols, of)
	}
	if len(protocols) > 25 {
		return nil, errors.New("a rule of a ClusterNetworkPolicy has at most 25 ports")
	}
	return protocols, nil
}

// addPolicy adds a policy whose rules only allow as NetworkPolicies: one in its namespace, or one in each selected
// namespace.
func (i *item) addPolicy(p *policy) {
	if len(p.isolated) == 0 {
		i.notNeeded("it has no effect")
		return
	}
	namespaces, err := i.in.namespacesOf(p)
	if err != nil {
		i.cannot(err.Error(), "write NetworkPolicies for its namespaces")
		return
	}
	for _, namespace := range namespaces {
		i.becomes(filePolicies, p.networkPolicy(namespace), "")
	}
	if p.namespace != "" {
		return
	}
	if len(namespaces) == 0 {
		i.notNeeded("it selects no namespace that exists")
		return
	}
	i.lose("", "namespaces that are created later need a copy of NetworkPolicy %s", p.name)
}

// addClusterPolicy adds a policy with other rules as a ClusterNetworkPolicy. Its pods are isolated by NetworkPolicies without rules.
func (i *item) addClusterPolicy(p *policy, name string, priority int32) {
	made, err := p.clusterPolicy(name, priority)
	if err != nil {
		i.cannot(err.Error(), "write NetworkPolicies for its pods; they need no rules that deny")
		return
	}
	if len(made.Spec.Ingress)+len(made.Spec.Egress) > 0 {
		i.becomes(filePolicies, made, "")
		i.in.step("the manifests have ClusterNetworkPolicies: install the CRDs of network-policy-api v0.2.0 before")
	}
	bare := *p
	bare.rules = nil
	i.addPolicy(&bare)
}

// namespacesOf lists the namespaces that have pods of a policy.
func (in *inspector) namespacesOf(p *policy) (names []string, err error) {
	if p.namespace != "" {
		return []string{p.namespace}, nil
	}
	selector, err := metav1.LabelSelectorAsSelector(&p.namespaces)
	if err != nil {
		return nil, fmt.Errorf("its selector of namespaces cannot be read: %w", err)
	}
	if len(in.byKind[namespaceKind]) == 0 {
		return nil, errors.New("the namespaces were not read, and a NetworkPolicy in each is needed")
	}
	for _, o := range in.byKind[namespaceKind] {
		set := labels.Set{corev1.LabelMetadataName: o.GetName()}
		for key, value := range o.GetLabels() {
			set[key] = value
		}
		if selector.Matches(set) {
			names = append(names, o.GetName())
		}
	}
	return names, nil
}

// hasNetworkPolicies reports whether the cluster has NetworkPolicies, or they could not be read.
func (in *inspector) hasNetworkPolicies() bool {
	unread := slices.ContainsFunc(in.cluster.Unread, func(u Unread) bool {
		return strings.HasPrefix(u.Resource, "networkpolicies.networking")
	})
	return unread || len(in.byKind[networkPolicyKind]) > 0 || in.cluster.Counts[networkPolicyKind] > 0
}
