// Package reach computes from policies which connections of a pod they allow, and by which rule. It has no clients.
// OVN's rows are not read: "kubectl weft trace" shows what they do with one packet.
package reach

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"net/netip"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/ovn/ovnexpr"
)

// maxPods limits the names of a rule's pods in an answer.
const maxPods = 200

// Input is the cluster's objects.
type Input struct {
	Pods       []*corev1.Pod
	Namespaces map[string]labels.Set // name -> labels
	Nodes      []*corev1.Node
	Policies   []*networkingv1.NetworkPolicy
	// Cluster are the ClusterNetworkPolicies, AdminNetworkPolicies and the BaselineAdminNetworkPolicy.
	Cluster []metav1.Object
}

// Answer is what policies allow for the connections of a pod on the cluster network.
type Answer struct {
	Pod string `json:"pod"`
	// OnHost means that the pod has its node's network, to which no policy applies.
	OnHost  bool      `json:"onHost"`
	Ingress Direction `json:"ingress"`
	Egress  Direction `json:"egress"`
	// Invalid are the policies that cannot be read, and why.
	Invalid []string `json:"invalid"`
}

// Direction is the connections to a pod, or from it.
type Direction struct {
	// IsolatedBy are the NetworkPolicies that deny what no rule of theirs allows. Without them, everything is allowed
	// that no cluster-wide policy denies.
	IsolatedBy []string `json:"isolatedBy"`
	// Rules are in the order of decision: the first that matches decides, except that NetworkPolicies have no order.
	Rules []Rule `json:"rules"`
}

// Rule is a rule of a policy that selects the pod.
type Rule struct {
	// Tier is Admin, NetworkPolicy or Baseline, in the order of decision.
	Tier   string `json:"tier"`
	Policy string `json:"policy"`
	// Rule is the position of the rule: "ingress[0]".
	Rule string `json:"rule"`
	// Action is accept, deny or pass.
	Action facts.Action `json:"action"`
	Ports  string       `json:"ports"`
	// Peers are the other ends, as the rule selects them.
	Peers []string `json:"peers"`
	// Pods are the first pods that are selected now, and Count is the number of all of them.
	Pods  []string `json:"pods"`
	Count int      `json:"count"`
}

// The tiers in the order of decision.
const (
	tierAdmin    = "Admin"
	tierPolicy   = "NetworkPolicy"
	tierBaseline = "Baseline"
)

var tierOrder = map[string]int{tierAdmin: 0, tierPolicy: 1, tierBaseline: 2}

// Of returns the answer about a pod.
func Of(in Input, pod *corev1.Pod) Answer {
	r := reader{in: in}
	for _, p := range in.Pods {
		if !p.Spec.HostNetwork && p.Status.Phase != corev1.PodSucceeded && p.Status.Phase != corev1.PodFailed {
			r.pods = append(r.pods, selected(p, in.Namespaces))
		}
	}
	r.subject = selected(pod, in.Namespaces)
	r.answer = Answer{Pod: pod.Namespace + "/" + pod.Name, OnHost: pod.Spec.HostNetwork, Invalid: []string{}, Ingress: none(), Egress: none()}
	if !r.answer.OnHost {
		r.clusterPolicies()
		r.networkPolicies()
	}
	for _, d := range []*Direction{&r.answer.Ingress, &r.answer.Egress} {
		slices.SortStableFunc(d.Rules, func(a, b Rule) int { return cmp.Compare(tierOrder[a.Tier], tierOrder[b.Tier]) })
	}
	return r.answer
}

func none() Direction { return Direction{IsolatedBy: []string{}, Rules: []Rule{}} }

func selected(p *corev1.Pod, namespaces map[string]labels.Set) facts.SelectedPod {
	return facts.SelectedPod{Namespace: p.Namespace, Name: p.Name, NamespaceLabels: namespaces[p.Namespace], Labels: p.Labels,
		Ports: facts.NamedPorts(p)}
}

type reader struct {
	in      Input
	pods    []facts.SelectedPod
	subject facts.SelectedPod
	answer  Answer
}

func (r *reader) numbers(pods facts.PodSelector, port facts.NamedPort) []uint16 {
	return facts.NumbersOf(pods, port, r.pods)
}

// nodesOf returns the internal addresses of the nodes of a selector.
func (r *reader) nodesOf(selector labels.Selector) (found []netip.Addr) {
	for _, n := range r.in.Nodes {
		if !selector.Matches(labels.Set(n.Labels)) {
			continue
		}
		for _, a := range n.Status.Addresses {
			if address, err := netip.ParseAddr(a.Address); err == nil && a.Type == corev1.NodeInternalIP {
				found = append(found, address)
			}
		}
	}
	return found
}

// clusterPolicies adds the rules of the cluster-wide policies in the order of their priorities.
func (r *reader) clusterPolicies() {
	var all []facts.ClusterPolicy
	for _, o := range r.in.Cluster {
		p, err := facts.ParseClusterPolicy(o, r.numbers, r.nodesOf)
		if err != nil {
			r.answer.Invalid = append(r.answer.Invalid, fmt.Sprintf("%s %s: %v", kindText[p.Kind], o.GetName(), err))
		}
		if p.Subject.Pods != nil && p.Subject.Matches(r.subject) {
			all = append(all, p)
		}
	}
	slices.SortFunc(all, func(a, b facts.ClusterPolicy) int {
		return cmp.Or(cmp.Compare(a.Priority, b.Priority), cmp.Compare(a.Name, b.Name))
	})
	for _, p := range all {
		name, tier := kindText[p.Kind]+" "+p.Name, tierAdmin
		if p.Baseline {
			tier = tierBaseline
		}
		for _, rule := range p.Ingress {
			r.answer.Ingress.Rules = append(r.answer.Ingress.Rules, r.rule(tier, name, rule.PolicyRule, rule.Action))
		}
		for _, rule := range p.Egress {
			r.answer.Egress.Rules = append(r.answer.Egress.Rules, r.rule(tier, name, rule.PolicyRule, rule.Action))
		}
	}
}

var kindText = map[string]string{facts.KindClusterNetworkPolicy: "ClusterNetworkPolicy",
	facts.KindAdminNetworkPolicy:         "AdminNetworkPolicy",
	facts.KindBaselineAdminNetworkPolicy: "BaselineAdminNetworkPolicy"}

// networkPolicies adds the rules of the NetworkPolicies that select the pod.
func (r *reader) networkPolicies() {
	for _, np := range r.in.Policies {
		if np.Namespace != r.subject.Namespace {
			continue
		}
		name := "NetworkPolicy " + np.Namespace + "/" + np.Name
		p, err := facts.ParseNetworkPolicy(np, r.numbers)
		if err != nil {
			r.answer.Invalid = append(r.answer.Invalid, fmt.Sprintf("%s: %v", name, err))
		}
		if !p.Subject.Matches(r.subject) {
			continue
		}
		r.direction(&r.answer.Ingress, name, p.Ingress)
		r.direction(&r.answer.Egress, name, p.Egress)
	}
}

func (r *reader) direction(d *Direction, name string, rules *facts.PolicyRules) {
	if rules == nil {
		return
	}
	d.IsolatedBy = append(d.IsolatedBy, name)
	for _, rule := range rules.Rules {
		d.Rules = append(d.Rules, r.rule(tierPolicy, name, rule, facts.Accept))
	}
}

func (r *reader) rule(tier, policy string, rule facts.PolicyRule, action facts.Action) Rule {
	out := Rule{Tier: tier, Policy: policy, Rule: rule.Text, Action: action, Ports: portsText(rule), Peers: []string{}, Pods: []string{}}
	if rule.Anybody {
		out.Peers = append(out.Peers, "everyone")
	}
	for _, peer := range rule.Peers {
		if peer.Pods != nil {
			out.Peers = append(out.Peers, selectorText(*peer.Pods))
		}
		for _, network := range peer.Networks {
			out.Peers = append(out.Peers, network.String())
		}
		out.Peers = append(out.Peers, peer.Domains...)
	}
	for _, pod := range r.pods {
		if pod.Namespace == r.subject.Namespace && pod.Name == r.subject.Name || !peersMatch(rule, pod) {
			continue
		}
		if out.Count++; out.Count <= maxPods {
			out.Pods = append(out.Pods, pod.Namespace+"/"+pod.Name)
		}
	}
	return out
}

// peersMatch reports whether a rule's selectors select a pod. A rule for everyone selects no pods by name.
func peersMatch(rule facts.PolicyRule, pod facts.SelectedPod) bool {
	return slices.ContainsFunc(rule.Peers, func(p facts.PolicyPeer) bool { return p.Pods != nil && p.Pods.Matches(pod) })
}

// selectorText describes a selector for people.
func selectorText(s facts.PodSelector) string {
	text := "all pods"
	if !s.Pods.Empty() {
		text = "pods with " + s.Pods.String()
	}
	switch {
	case s.Namespace != "":
		return text + " in namespace " + s.Namespace
	case s.Namespaces.Empty():
		return text + " in all namespaces"
	}
	return text + " in namespaces with " + s.Namespaces.String()
}

func portsText(rule facts.PolicyRule) string {
	if rule.AllPorts {
		return "all ports"
	}
	var all []string
	for _, p := range rule.Ports {
		all = append(all, portText(p))
	}
	for _, p := range rule.Named {
		all = append(all, fmt.Sprintf("%s %s (%d)", p.Protocol, p.Name, p.Number))
	}
	if len(all) == 0 {
		return "no port: no pod has the named port"
	}
	return strings.Join(all, ", ")
}

func portText(p ovnexpr.Ports) string {
	protocol := strings.ToUpper(p.Protocol)
	switch {
	case p.First == 0:
		return "all " + protocol
	case p.Last > p.First:
		return fmt.Sprintf("%s %d-%d", protocol, p.First, p.Last)
	}
	return fmt.Sprintf("%s %d", protocol, p.First)
}
