package histories

import (
	"context"
	"maps"
	"math/rand/v2"
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/networks"
	"github.com/weft-network/weft/pkg/topology"
	"github.com/weft-network/weft/pkg/unit"
)

// policies is the resource of NetworkPolicies.
const policies = "networkpolicies"

func aPolicy(r *rand.Rand) string { return oneOf(r, "a/x", "a/y", "b/x", "b/y") }

// policyChoices are the steps of policies, drawn separately from the others.
var policyChoices = []choice{
	{12, func(r *rand.Rand) Step { return Step{Do: "policy", Name: aPolicy(r), N: r.IntN(10_000)} }},
	{5, func(r *rand.Rand) Step { return Step{Do: "delete-policy", Name: aPolicy(r)} }},
	{3, func(r *rand.Rand) Step { return Step{Do: "clear", Name: oneOf(r, "a", "b")} }},
	{8, func(r *rand.Rand) Step {
		return Step{Do: "tag-pod", Name: aPod(r), What: oneOf(r, "red", "blue", "no")}
	}},
	{4, func(r *rand.Rand) Step {
		return Step{Do: "tag-namespace", Name: oneOf(r, "a", "b"), What: oneOf(r, "red", "blue", "no")}
	}},
	{2, func(r *rand.Rand) Step { return Step{Do: "delay", Name: policies} }},
	{2, func(r *rand.Rand) Step { return Step{Do: "deliver", Name: policies} }},
	{1, func(r *rand.Rand) Step { return Step{Do: "lose", Name: policies} }},
	{1, func(r *rand.Rand) Step { return Step{Do: "double", Name: policies} }},
	{1, func(r *rand.Rand) Step { return Step{Do: "delay", Name: "namespaces"} }},
	{3, func(r *rand.Rand) Step {
		return Step{Do: "vandal", What: oneOf(r, "delete-Port_Group", "delete-Address_Set", "priority", "match"), N: r.IntN(100)}
	}},
}

// withPolicies inserts steps of policies into two of three histories.
func withPolicies(p Plan) Plan {
	r := rand.New(rand.NewPCG(p.Seed, 4))
	if r.IntN(3) == 0 {
		return p
	}
	return sprinkled(p, r, 6+r.IntN(16), policyChoices)
}

// doPolicy executes steps of namespace owners.
func (w *world) doPolicy(ctx context.Context, s Step) (handled bool, err error) {
	key := podKey(s.Name)
	policy := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
	switch s.Do {
	case "policy":
		policy.Spec = policyOf(s.N)
		if err := w.api.Create(ctx, policy); !apierrors.IsAlreadyExists(err) {
			return true, err
		}
		return true, change(ctx, w.api, key, policy, func() { policy.Spec = policyOf(s.N) })
	case "delete-policy":
		return true, client.IgnoreNotFound(w.api.Delete(ctx, policy))
	case "tag-pod":
		return true, w.tag(ctx, s, &corev1.Pod{}, "team")
	case "tag-namespace":
		s.Name = "/" + s.Name
		return true, w.tag(ctx, s, &corev1.Namespace{}, "team")
	}
	return false, nil
}

// tag sets or removes an object's label.
func (w *world) tag(ctx context.Context, s Step, o client.Object, key string) error {
	return change(ctx, w.api, podKey(s.Name), o, func() {
		labels := maps.Clone(o.GetLabels())
		if labels == nil {
			labels = map[string]string{}
		}
		if labels[key] = s.What; s.What == "no" {
			delete(labels, key)
		}
		o.SetLabels(labels)
	})
}

// policyOf derives a policy from a number.
func policyOf(n int) networkingv1.NetworkPolicySpec {
	r := rand.New(rand.NewPCG(uint64(n), 5))
	spec := networkingv1.NetworkPolicySpec{PodSelector: teams(r)}
	spec.PolicyTypes = append(spec.PolicyTypes, []networkingv1.PolicyType{networkingv1.PolicyTypeIngress,
		networkingv1.PolicyTypeEgress}[r.IntN(2):]...)
	for range r.IntN(3) {
		spec.Ingress = append(spec.Ingress, networkingv1.NetworkPolicyIngressRule{From: policyPeers(r), Ports: policyPorts(r)})
	}
	for range r.IntN(3) {
		spec.Egress = append(spec.Egress, networkingv1.NetworkPolicyEgressRule{To: policyPeers(r), Ports: policyPorts(r)})
	}
	return spec
}

func teams(r *rand.Rand) metav1.LabelSelector {
	switch r.IntN(5) {
	case 0:
		return metav1.LabelSelector{}
	case 1:
		return metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "team",
			Operator: metav1.LabelSelectorOpExists}}}
	case 2:
		return metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "team",
			Operator: metav1.LabelSelectorOpNotIn, Values: []string{"red"}}}}
	}
	return metav1.LabelSelector{MatchLabels: map[string]string{"team": oneOf(r, "red", "blue")}}
}

func policyPeers(r *rand.Rand) (peers []networkingv1.NetworkPolicyPeer) {
	for range r.IntN(3) {
		var peer networkingv1.NetworkPolicyPeer
		selector, namespaces := teams(r), teams(r)
		switch r.IntN(4) {
		case 0:
			peer.IPBlock = &networkingv1.IPBlock{CIDR: "192.0.2.0/24", Except: []string{"192.0.2.128/25"}}
		case 1:
			peer.PodSelector = &selector
		case 2:
			peer.NamespaceSelector = &namespaces
		case 3:
			peer.PodSelector, peer.NamespaceSelector = &selector, &namespaces
			if r.IntN(8) == 0 { // an invalid operator
				peer.PodSelector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "team", Operator: "Near"}}
			}
		}
		peers = append(peers, peer)
	}
	return peers
}

func policyPorts(r *rand.Rand) (ports []networkingv1.NetworkPolicyPort) {
	for range r.IntN(3) {
		tcp, number, last, name := corev1.ProtocolTCP, intstr.FromInt32(443), int32(450), intstr.FromString("web")
		ports = append(ports, []networkingv1.NetworkPolicyPort{{Protocol: &tcp}, {Protocol: &tcp, Port: &number},
			{Port: &number, EndPort: &last}, {Port: &name}}[r.IntN(4)])
	}
	return ports
}

// expectPolicies expects the ACLs of each policy, and the groups and sets that they name.
func (o *oracle) expectPolicies() {
	for i := range o.policies {
		read, _ := facts.ParseNetworkPolicy(&o.policies[i], o.numbers)
		read.Logging = o.loggingOf(&o.policies[i])
		o.units = append(o.units, topology.NetworkPolicyUnit(read))
	}
	for i := range o.clusterPolicies {
		read, _ := o.clusterFacts(&o.clusterPolicies[i])
		o.units = append(o.units, topology.ClusterPolicyUnit(read))
	}
	for i := range o.multiPolicies {
		o.units = append(o.units, topology.MultiNetworkPolicyUnit(o.multiFacts(&o.multiPolicies[i])))
	}
	selectors := o.selectors()
	for _, key := range slices.Sorted(maps.Keys(selectors)) {
		if key.Kind() == topology.KindPodGroup {
			o.units = append(o.units, topology.PodGroupUnit(key))
		} else {
			o.units = append(o.units, topology.PodSetUnit(key))
		}
	}
}

// selectors returns the selectors that policies use.
func (o *oracle) selectors() map[unit.Key]facts.PodSelector {
	used := map[unit.Key]facts.PodSelector{}
	for i := range o.policies {
		read, _ := facts.ParseNetworkPolicy(&o.policies[i], o.numbers)
		maps.Copy(used, topology.NetworkPolicySelectors(read))
	}
	for i := range o.clusterPolicies {
		read, _ := o.clusterFacts(&o.clusterPolicies[i])
		maps.Copy(used, topology.ClusterPolicySelectors(read))
	}
	for i := range o.qos {
		read, _ := o.qosFacts(&o.qos[i])
		maps.Copy(used, topology.EgressQoSSelectors(read))
	}
	for _, namespace := range o.multicast {
		if o.plan.Multicast {
			maps.Copy(used, topology.MulticastSelectors(namespace))
		}
	}
	for i := range o.multiPolicies {
		maps.Copy(used, topology.MultiNetworkPolicySelectors(o.multiFacts(&o.multiPolicies[i])))
	}
	return used
}

// selectedBy lists the units of the groups and sets that contain a pod.
func (o *oracle) selectedBy(pod *corev1.Pod) (keys []unit.Key) {
	for key, selector := range o.selectors() {
		if selector.Matches(o.selected(pod)) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

func (o *oracle) selected(pod *corev1.Pod) facts.SelectedPod {
	return facts.SelectedPod{Namespace: pod.Namespace, NamespaceLabels: o.labels[pod.Namespace],
		Labels: pod.Labels, Ports: facts.NamedPorts(pod)}
}

// numbers lists the numbers that the pods of a selector give to a named port.
func (o *oracle) numbers(selector facts.PodSelector, port facts.NamedPort) []uint16 {
	var pods []facts.SelectedPod
	for i := range o.pods {
		if pod := &o.pods[i]; hasOwnInterface(pod) && (selector.Network == "" || pod.Annotations[networks.Annotation] != "") {
			selected := o.selected(pod)
			selected.Network = selector.Network
			pods = append(pods, selected)
		}
	}
	return facts.NumbersOf(selector, port, pods)
}
