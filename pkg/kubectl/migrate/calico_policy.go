package migrate

import (
	"errors"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// networkPolicyOrder is the order that NetworkPolicies of Kubernetes have in Calico.
const networkPolicyOrder = 1000

// calicoPolicy translates a NetworkPolicy or GlobalNetworkPolicy of Calico. Policies whose rules only allow become
// NetworkPolicies, unless a later policy denies. The others become ClusterNetworkPolicies.
func calicoPolicy(i *item) {
	p, err := i.parseCalicoPolicy()
	if err != nil {
		i.cannot(err.Error(), "write NetworkPolicies or ClusterNetworkPolicies with what the policy is for")
		return
	}
	if rest := i.rest(); len(rest) > 0 || len(*i.wrong) > 0 {
		i.cannot("unknown fields decide what it means: "+strings.Join(rest, ", "), "write the policy by hand")
		return
	}
	p.simplify()
	order := calicoOrder(i.Unstructured)
	if p.onlyAllows() && !i.in.deniedAfter(order) {
		i.addPolicy(p)
		return
	}
	if order >= networkPolicyOrder && i.in.hasNetworkPolicies() {
		i.cannot("its rules deny what no NetworkPolicy allowed before, which ClusterNetworkPolicies cannot",
			"write NetworkPolicies that allow only what shall pass")
		return
	}
	name := weftName("calico", i.GetName())
	if i.GetNamespace() != "" {
		name = weftName("calico", i.GetNamespace(), i.GetName())
	}
	i.addClusterPolicy(p, name, i.in.priority(order))
}

// calicoOrder returns the order of a policy. Policies without an order are the last.
func calicoOrder(o *unstructured.Unstructured) float64 {
	spec, _, _ := unstructured.NestedMap(o.Object, "spec")
	switch n := spec["order"].(type) {
	case int64:
		return float64(n)
	case float64:
		return n
	}
	return math.Inf(1)
}

// calicoPolicies lists the policies of Calico.
func (in *inspector) calicoPolicies() []*unstructured.Unstructured {
	return slices.Concat(in.calicoObjects("NetworkPolicy"), in.calicoObjects("GlobalNetworkPolicy"))
}

// deniedAfter reports whether a policy of a later order denies. Then the rules of earlier policies must be judged first.
func (in *inspector) deniedAfter(order float64) bool {
	for _, o := range in.calicoPolicies() {
		if calicoOrder(o) <= order {
			continue
		}
		other := &item{in: in, Unstructured: o, fields: newFields("", o.DeepCopy().Object), entry: &Entry{}}
		if p, err := other.parseCalicoPolicy(); err == nil {
			p.simplify()
			if !p.onlyAllows() {
				return true
			}
		}
	}
	return false
}

// priority returns the priority of a ClusterNetworkPolicy for an order: the rank of the order among all, times ten.
func (in *inspector) priority(order float64) int32 {
	var orders []float64
	for _, o := range in.calicoPolicies() {
		orders = append(orders, calicoOrder(o))
	}
	slices.Sort(orders)
	orders = slices.Compact(orders)
	return int32(min(10*(slices.Index(orders, order)+1), 1000))
}

// parseCalicoPolicy reads a policy of Calico. The error says what policies of Kubernetes cannot express.
func (i *item) parseCalicoPolicy() (p *policy, err error) {
	spec := i.spec()
	p = &policy{name: weftName(i.GetName()), namespace: i.GetNamespace(), rules: map[networkingv1.PolicyType][]policyRule{}}
	if tier := spec.text("tier"); tier != "" && tier != "default" {
		return nil, fmt.Errorf("it is of tier %s; ClusterNetworkPolicies have two tiers, before and after NetworkPolicies", tier)
	}
	p.name = weftName(strings.TrimPrefix(i.GetName(), "default."))
	for _, key := range []string{"doNotTrack", "preDNAT", "applyOnForward"} {
		if spec.flag(key) {
			return nil, fmt.Errorf("spec.%s: Weft's policies judge pods' connections, not hosts", key)
		}
	}
	for _, key := range []string{"serviceAccountSelector"} {
		if spec.text(key) != "" {
			return nil, fmt.Errorf("spec.%s: policies of Kubernetes do not select service accounts", key)
		}
	}
	spec.take("order")
	spec.take("performanceHints")
	if err := i.subject(p, spec); err != nil {
		return nil, err
	}
	for _, d := range directions {
		for n, r := range spec.list(strings.ToLower(string(d))) {
			rule, skip, err := i.calicoRule(d, r)
			if err != nil {
				return nil, fmt.Errorf("spec.%s[%d]: %w", strings.ToLower(string(d)), n, err)
			}
			if !skip {
				p.rules[d] = append(p.rules[d], rule)
			}
		}
	}
	p.isolated = i.types(spec, p)
	return p, nil
}

// subject reads which pods a policy is about.
func (i *item) subject(p *policy, spec fields) error {
	selected, err := parseCalico(spec.text("selector"))
	if err != nil {
		return fmt.Errorf("spec.selector: %w", err)
	}
	if selected.ofNamespaces && p.namespace != "" {
		return errors.New("spec.selector names a namespace, though the policy has its own")
	}
	p.pods, p.namespaces = selected.pods, selected.namespaces
	text := spec.text("namespaceSelector")
	if text == "" {
		return nil
	}
	namespaces, global, err := parseCalicoNamespaces(text)
	if err != nil || global {
		return errors.Join(fmt.Errorf("spec.namespaceSelector: %q", text), err)
	}
	p.namespaces = merge(p.namespaces, namespaces)
	return nil
}

// merge joins the requirements of two selectors.
func merge(a, b metav1.LabelSelector) metav1.LabelSelector {
	for key, value := range b.MatchLabels {
		if have, ok := a.MatchLabels[key]; ok && have != value { // nothing has both
			b.MatchExpressions = append(b.MatchExpressions, metav1.LabelSelectorRequirement{
				Key: key, Operator: metav1.LabelSelectorOpIn, Values: []string{value}})
			continue
		}
		metav1.AddLabelToSelector(&a, key, value)
	}
	a.MatchExpressions = append(a.MatchExpressions, b.MatchExpressions...)
	return a
}

// types returns the directions that a policy isolates. Without types, they follow from its rules, as Calico defines.
func (i *item) types(spec fields, p *policy) (types []networkingv1.PolicyType) {
	for _, text := range spec.texts("types") {
		types = append(types, networkingv1.PolicyType(text))
	}
	if len(types) > 0 {
		return types
	}
	if _, hasEgress, _ := unstructured.NestedSlice(i.Object, "spec", "egress"); !hasEgress {
		return []networkingv1.PolicyType{networkingv1.PolicyTypeIngress}
	}
	if _, hasIngress, _ := unstructured.NestedSlice(i.Object, "spec", "ingress"); !hasIngress {
		return []networkingv1.PolicyType{networkingv1.PolicyTypeEgress}
	}
	return directions
}

// calicoRule reads a rule. skip is true for rules that only log.
func (i *item) calicoRule(d networkingv1.PolicyType, r fields) (rule policyRule, skip bool, err error) {
	rule.action = action(r.text("action"))
	if rule.action == "Log" {
		i.lose(r.path, "Log: kubectl weft log shows decisions, and the annotation network.weft.dev/acl-logging logs them")
		for key := range r.left {
			delete(r.left, key)
		}
		return rule, true, nil
	}
	if !slices.Contains([]action{allow, deny, pass}, rule.action) {
		return rule, false, fmt.Errorf("action %q is unknown", rule.action)
	}
	peer, own := r.inner("source"), r.inner("destination")
	if d == networkingv1.PolicyTypeEgress {
		peer, own = own, peer
	}
	ports := own
	if d == networkingv1.PolicyTypeEgress {
		ports = peer
	}
	if rule.ports, err = calicoPorts(r, ports); err != nil {
		return rule, false, err
	}
	r.take("metadata")
	rule.peers, err = i.calicoPeers(peer)
	for _, f := range []fields{r, peer, own} {
		for _, key := range sortedKeys(f.left) {
			if len(leaves(f.at(key), f.left[key])) > 0 && err == nil {
				err = fmt.Errorf("%s has no form in policies of Kubernetes", f.at(key))
			}
		}
	}
	return rule, false, err
}

// calicoPorts reads the protocol and the destination's ports.
func calicoPorts(r, destination fields) (ports []networkingv1.NetworkPolicyPort, err error) {
	value := r.take("protocol")
	texts := destination.take("ports")
	list, _ := texts.([]any)
	if value == nil {
		if len(list) > 0 {
			return nil, errors.New("ports without a protocol")
		}
		return nil, nil
	}
	protocol := corev1.Protocol(strings.ToUpper(fmt.Sprint(value)))
	for number, name := range map[string]corev1.Protocol{"6": corev1.ProtocolTCP, "17": corev1.ProtocolUDP, "132": corev1.ProtocolSCTP} {
		if string(protocol) == number {
			protocol = name
		}
	}
	if !slices.Contains([]corev1.Protocol{corev1.ProtocolTCP, corev1.ProtocolUDP, corev1.ProtocolSCTP}, protocol) {
		return nil, fmt.Errorf("protocol %v has no form in policies of Kubernetes", value)
	}
	if len(list) == 0 {
		return []networkingv1.NetworkPolicyPort{{Protocol: &protocol}}, nil
	}
	for _, one := range list {
		port, err := portOf(protocol, fmt.Sprint(one), ":")
		if err != nil {
			return nil, err
		}
		ports = append(ports, port)
	}
	return ports, nil
}

// portOf parses a port, a range with a separator, or a port's name.
func portOf(protocol corev1.Protocol, text, separator string) (port networkingv1.NetworkPolicyPort, err error) {
	first, last, ranged := strings.Cut(text, separator)
	number, wrong := strconv.Atoi(first)
	value := intstr.FromInt(number)
	if wrong != nil {
		if ranged {
			return port, fmt.Errorf("%q is no range of ports", text)
		}
		value = intstr.FromString(text)
	}
	port = networkingv1.NetworkPolicyPort{Protocol: &protocol, Port: &value}
	if ranged {
		end, wrong := strconv.Atoi(last)
		if wrong != nil || end < number {
			return port, fmt.Errorf("%q is no range of ports", text)
		}
		to := int32(end)
		port.EndPort = &to
	}
	return port, nil
}

// calicoPeers reads the other side of a rule. Selectors also select NetworkSets, whose networks become blocks.
func (i *item) calicoPeers(f fields) (peers []policyPeer, err error) {
	nets, notNets := f.texts("nets"), f.texts("notNets")
	hasSelector := f.has("selector") || f.has("namespaceSelector")
	text, inNamespace := f.text("selector"), f.text("namespaceSelector")
	if hasSelector && (text != "" || inNamespace != "") {
		if len(nets)+len(notNets) > 0 {
			return nil, errors.New("a selector together with networks has no form in policies of Kubernetes")
		}
		return i.calicoSelected(text, inNamespace)
	}
	if len(nets) == 0 && len(notNets) > 0 {
		nets = []string{"0.0.0.0/0", "::/0"}
	}
	for _, text := range nets {
		block, err := blockOf(text, notNets)
		if err != nil {
			return nil, err
		}
		peers = append(peers, policyPeer{block: block})
	}
	return peers, nil
}

// blockOf returns a block of addresses without those exceptions that lie in it.
func blockOf(text string, except []string) (*networkingv1.IPBlock, error) {
	cidr, err := cidrOf(text)
	if err != nil {
		return nil, err
	}
	block := &networkingv1.IPBlock{CIDR: cidr.String()}
	for _, text := range except {
		out, err := cidrOf(text)
		if err != nil {
			return nil, err
		}
		if cidr.Contains(out.Addr()) && out.Bits() > cidr.Bits() {
			block.Except = append(block.Except, out.String())
		}
	}
	return block, nil
}

// cidrOf parses a network or an address.
func cidrOf(text string) (netip.Prefix, error) {
	if a, err := netip.ParseAddr(text); err == nil {
		return netip.PrefixFrom(a, a.BitLen()), nil
	}
	cidr, err := netip.ParsePrefix(text)
	return cidr.Masked(), err
}

// calicoSelected returns the pods and the networks that a selector selects.
func (i *item) calicoSelected(text, inNamespace string) (peers []policyPeer, err error) {
	selected, err := parseCalico(text)
	if err != nil {
		return nil, err
	}
	namespaces, global, err := parseCalicoNamespaces(inNamespace)
	if err != nil {
		return nil, err
	}
	global = global || selected.global
	if !global {
		peer := policyPeer{pods: selected.pods}
		if inNamespace != "" || selected.ofNamespaces || i.GetNamespace() == "" {
			both := merge(selected.namespaces, namespaces)
			peer.namespaces = &both
		}
		peers = append(peers, peer)
	}
	selector, err := metav1.LabelSelectorAsSelector(&selected.pods)
	if err != nil || text == "" || text == "all()" {
		return peers, err
	}
	for _, o := range i.networkSets(global) {
		if !selector.Matches(labels.Set(o.GetLabels())) {
			continue
		}
		spec := specOf(o)
		for _, net := range spec.texts("nets") {
			block, err := blockOf(net, nil)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", nameOf(o), err)
			}
			peers = append(peers, policyPeer{block: block})
		}
	}
	return peers, nil
}

// networkSets lists the sets of networks that a policy's selectors select.
func (i *item) networkSets(global bool) (sets []*unstructured.Unstructured) {
	if global || i.GetNamespace() == "" {
		sets = i.in.calicoObjects("GlobalNetworkSet")
	}
	for _, o := range i.in.calicoObjects("NetworkSet") {
		if !global && (i.GetNamespace() == "" || o.GetNamespace() == i.GetNamespace()) {
			sets = append(sets, o)
		}
	}
	return sets
}
