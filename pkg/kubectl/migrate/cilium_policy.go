package migrate

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// ciliumSelected is a selector of Cilium as label selectors.
type ciliumSelected struct {
	pods, namespaces metav1.LabelSelector
	ofNamespaces     bool
}

// parseCilium splits a selector of endpoints, whose labels have a source ("k8s:app") and include labels of namespaces.
func parseCilium(s metav1.LabelSelector) (c ciliumSelected, err error) {
	for _, key := range sortedKeys(s.MatchLabels) {
		into, label, err := c.label(key)
		if err != nil {
			return c, err
		}
		metav1.AddLabelToSelector(into, label, s.MatchLabels[key])
	}
	for _, e := range s.MatchExpressions {
		into, label, err := c.label(e.Key)
		if err != nil {
			return c, err
		}
		e.Key = label
		into.MatchExpressions = append(into.MatchExpressions, e)
	}
	return c, nil
}

// label returns the selector that a label of Cilium belongs to, and its name there.
func (c *ciliumSelected) label(key string) (into *metav1.LabelSelector, label string, err error) {
	source, name, ok := strings.Cut(key, ":")
	if !ok {
		name = key
	} else if source != "k8s" && source != "any" {
		return nil, "", fmt.Errorf("label %s is not of pods", key)
	}
	switch {
	case name == "io.kubernetes.pod.namespace":
		c.ofNamespaces = true
		return &c.namespaces, corev1.LabelMetadataName, nil
	case strings.HasPrefix(name, "io.cilium.k8s.namespace.labels."):
		c.ofNamespaces = true
		return &c.namespaces, strings.TrimPrefix(name, "io.cilium.k8s.namespace.labels."), nil
	case strings.HasPrefix(name, "io.cilium.k8s.policy."):
		return nil, "", fmt.Errorf("label %s is of service accounts or clusters, which policies of Kubernetes do not select", key)
	}
	return &c.pods, name, nil
}

// ciliumPolicy translates a CiliumNetworkPolicy or CiliumClusterwideNetworkPolicy. What it allows becomes
// NetworkPolicies. What it denies becomes a ClusterNetworkPolicy, which decides before them, as with Cilium.
func ciliumPolicy(i *item) {
	specs := i.list("specs")
	if i.has("spec") {
		specs = append([]fields{i.spec()}, specs...)
	}
	const next = "write NetworkPolicies with what the policy is for; EgressFirewalls know DNS names"
	var allows, denies []*policy
	for n, spec := range specs {
		a, d, err := i.parseCiliumPolicy(spec)
		if err != nil {
			i.cannot(err.Error(), next)
			return
		}
		if len(specs) > 1 {
			a.name, d.name = weftName(a.name, fmt.Sprint(n)), weftName(d.name, fmt.Sprint(n))
		}
		allows, denies = append(allows, a), append(denies, d)
	}
	if rest := i.rest(); len(rest) > 0 || len(*i.wrong) > 0 {
		i.cannot("unknown fields decide what it means: "+strings.Join(rest, ", "), next)
		return
	}
	for n := range allows {
		if !i.addCilium(allows[n], denies[n]) {
			return
		}
	}
	if i.entry.Outcome == "" {
		i.notNeeded("it has no effect")
	}
}

// addCilium adds the two halves of a policy. It reports whether both have a counterpart.
func (i *item) addCilium(allows, denies *policy) bool {
	if len(denies.rules) > 0 {
		made, err := denies.clusterPolicy(weftName("cilium", i.GetNamespace(), denies.name), 0)
		if err != nil {
			i.cannot("it denies: "+err.Error(), "write NetworkPolicies that allow only what shall pass")
			return false
		}
		i.becomes(filePolicies, made, "")
		i.in.step("the manifests have ClusterNetworkPolicies: install the CRDs of network-policy-api v0.2.0 before")
	}
	if len(allows.isolated) > 0 {
		i.addPolicy(allows)
	}
	return i.entry.Outcome != Cannot
}

// parseCiliumPolicy reads a rule of Cilium: what it allows, and what it denies.
func (i *item) parseCiliumPolicy(spec fields) (allows, denies *policy, err error) {
	if spec.has("nodeSelector") {
		return nil, nil, errors.New("it is about hosts; Weft's policies judge pods' connections")
	}
	endpoints, ok := spec.selector("endpointSelector")
	if !ok {
		return nil, nil, errors.New("it has no endpointSelector")
	}
	selected, err := parseCilium(endpoints)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", spec.at("endpointSelector"), err)
	}
	if selected.ofNamespaces && i.GetNamespace() != "" {
		return nil, nil, errors.New("its endpointSelector names a namespace, though the policy has its own")
	}
	newPolicy := func() *policy {
		return &policy{name: weftName(i.GetName()), namespace: i.GetNamespace(), pods: selected.pods, namespaces: selected.namespaces,
			rules: map[networkingv1.PolicyType][]policyRule{}}
	}
	allows, denies = newPolicy(), newPolicy()
	spec.take("description")
	spec.take("labels")
	isolates := spec.inner("enableDefaultDeny")
	for _, d := range directions {
		lower := strings.ToLower(string(d))
		if err := i.ciliumRules(allows, d, allow, spec.list(lower)); err != nil {
			return nil, nil, err
		}
		if err := i.ciliumRules(denies, d, deny, spec.list(lower+"Deny")); err != nil {
			return nil, nil, err
		}
		_, there := i.sections(spec.path)[lower]
		_, denied := i.sections(spec.path)[lower+"Deny"]
		isolated := there || denied
		if isolates.has(lower) {
			isolated = isolates.flag(lower)
		}
		switch {
		case isolated:
			allows.isolated = append(allows.isolated, d)
		case len(allows.rules[d]) > 0:
			return nil, nil, fmt.Errorf("enableDefaultDeny.%s is false; a NetworkPolicy that allows also isolates its pods", lower)
		}
	}
	return allows, denies, nil
}

// sections returns a spec of the object as it was read.
func (i *item) sections(path string) map[string]any {
	if !strings.HasPrefix(path, "specs[") {
		spec, _, _ := unstructured.NestedMap(i.Object, "spec")
		return spec
	}
	var n int
	_, _ = fmt.Sscanf(path, "specs[%d]", &n)
	specs, _, _ := unstructured.NestedSlice(i.Object, "specs")
	spec, _ := specs[n].(map[string]any)
	return spec
}

// ciliumRules reads the rules of a direction.
func (i *item) ciliumRules(p *policy, d networkingv1.PolicyType, what action, list []fields) error {
	prefix := map[networkingv1.PolicyType]string{networkingv1.PolicyTypeIngress: "from", networkingv1.PolicyTypeEgress: "to"}[d]
	for _, r := range list {
		if len(r.left) == 0 { // such a rule matches nothing, and makes the policy isolate
			continue
		}
		peers, some, err := i.ciliumPeers(r, prefix)
		if err != nil {
			return fmt.Errorf("%s: %w", r.path, err)
		}
		if some && len(peers) == 0 {
			continue // all of its peers reach pods anyway
		}
		ports, err := ciliumPorts(r)
		if err != nil {
			return fmt.Errorf("%s: %w", r.path, err)
		}
		for _, key := range sortedKeys(r.left) {
			if len(leaves(r.at(key), r.left[key])) > 0 {
				return fmt.Errorf("%s has no form in policies of Kubernetes", r.at(key))
			}
		}
		p.rules[d] = append(p.rules[d], policyRule{action: what, peers: peers, ports: ports})
	}
	return nil
}

// ciliumPeers reads the other side of a rule. some reports whether the rule names peers at all.
func (i *item) ciliumPeers(r fields, prefix string) (peers []policyPeer, some bool, err error) {
	var kinds []string
	for _, key := range []string{"Endpoints", "CIDR", "CIDRSet", "Entities"} {
		if r.has(prefix + key) {
			kinds = append(kinds, key)
		}
	}
	for n, e := range r.list(prefix + "Endpoints") {
		holder := newFields("", map[string]any{"s": e.left})
		s, _ := holder.selector("s")
		selected, err := parseCilium(s)
		if err != nil {
			return nil, true, fmt.Errorf("%sEndpoints[%d]: %w", prefix, n, err)
		}
		peer := policyPeer{pods: selected.pods}
		if selected.ofNamespaces || i.GetNamespace() == "" {
			peer.namespaces = &selected.namespaces
		}
		peers = append(peers, peer)
	}
	r.take(prefix + "Endpoints")
	blocks, err := i.ciliumBlocks(r, prefix)
	if err != nil {
		return nil, true, err
	}
	peers = append(peers, blocks...)
	entities, all, err := ciliumEntities(r.texts(prefix+"Entities"), prefix)
	if err != nil || all {
		return nil, false, err
	}
	return append(peers, entities...), len(kinds) > 0, nil
}

// ciliumBlocks reads the networks of a rule, also the networks of CiliumCIDRGroups.
func (i *item) ciliumBlocks(r fields, prefix string) (peers []policyPeer, err error) {
	add := func(text string, except []string) error {
		block, err := blockOf(text, except)
		if err == nil {
			peers = append(peers, policyPeer{block: block})
		}
		return err
	}
	for _, text := range r.texts(prefix + "CIDR") {
		if err := add(text, nil); err != nil {
			return nil, err
		}
	}
	for _, set := range r.list(prefix + "CIDRSet") {
		text, group, except := set.text("cidr"), set.text("cidrGroupRef"), set.texts("except")
		texts := []string{text}
		if group != "" {
			o := i.in.find(schema.GroupKind{Group: "cilium.io", Kind: "CiliumCIDRGroup"}, group)
			if o == nil {
				return nil, fmt.Errorf("there is no CiliumCIDRGroup %s", group)
			}
			spec := specOf(o)
			texts = spec.texts("externalCIDRs")
		}
		for _, text := range texts {
			if err := add(text, except); err != nil {
				return nil, err
			}
		}
	}
	return peers, nil
}

// ciliumEntities reads entities. all reports whether they are everything.
func ciliumEntities(names []string, prefix string) (peers []policyPeer, all bool, err error) {
	for _, name := range names {
		switch {
		case name == "all":
			return nil, true, nil
		case name == "cluster":
			peers = append(peers, policyPeer{namespaces: &metav1.LabelSelector{}})
		case prefix == "from" && slices.Contains([]string{"host", "health", "init"}, name):
			// a pod's own node always reaches it
		default:
			return nil, false, fmt.Errorf("entity %s has no form in policies of Kubernetes", name)
		}
	}
	return peers, false, nil
}

// ciliumPorts reads the ports of a rule, which must not look into the packets of a connection.
func ciliumPorts(r fields) (ports []networkingv1.NetworkPolicyPort, err error) {
	for _, rule := range r.list("toPorts") {
		for _, key := range sortedKeys(rule.left) {
			if key != "ports" && len(leaves(key, rule.left[key])) > 0 {
				return nil, fmt.Errorf("toPorts.%s looks into connections, which Weft does not", key)
			}
		}
		for _, one := range rule.list("ports") {
			text, protocol, end := fmt.Sprint(one.take("port")), one.text("protocol"), one.number("endPort")
			protocols := []corev1.Protocol{corev1.Protocol(protocol)}
			if protocol == "" || protocol == "ANY" {
				protocols = []corev1.Protocol{corev1.ProtocolTCP, corev1.ProtocolUDP, corev1.ProtocolSCTP}
			}
			for _, p := range protocols {
				port, err := portOf(p, text, "-")
				if err != nil {
					return nil, err
				}
				if to := int32(end); to != 0 {
					port.EndPort = &to
				}
				if port.Port.IntVal == 0 && port.Port.StrVal == "" {
					port.Port = nil
				}
				ports = append(ports, port)
			}
		}
	}
	return ports, nil
}
