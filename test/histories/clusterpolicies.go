package histories

import (
	"context"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	policyv1alpha2 "sigs.k8s.io/network-policy-api/apis/v1alpha2"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/facts"
)

// clusterPolicies is the resource of ClusterNetworkPolicies.
const clusterPolicies = "clusternetworkpolicies"

// clusterPolicyChoices are the steps of administrators, drawn separately from the others.
var clusterPolicyChoices = []choice{
	{8, func(r *rand.Rand) Step {
		return Step{Do: "cluster-policy", Name: oneOf(r, "x", "y", "z"), N: r.IntN(10_000)}
	}},
	{3, func(r *rand.Rand) Step { return Step{Do: "delete-cluster-policy", Name: oneOf(r, "x", "y", "z")} }},
	{2, func(r *rand.Rand) Step {
		return Step{Do: "log-cluster-policy", Name: oneOf(r, "x", "y", "z"), What: oneOf(r, loggings...)}
	}},
	{3, func(r *rand.Rand) Step {
		return Step{Do: "tag-pod", Name: aPod(r), What: oneOf(r, "red", "blue", "no")}
	}},
	{2, func(r *rand.Rand) Step {
		return Step{Do: "tag-node", Name: aNode(r), What: oneOf(r, "red", "blue", "no")}
	}},
	{2, func(r *rand.Rand) Step { return Step{Do: "delay", Name: clusterPolicies} }},
	{2, func(r *rand.Rand) Step { return Step{Do: "deliver", Name: clusterPolicies} }},
	{1, func(r *rand.Rand) Step { return Step{Do: "lose", Name: clusterPolicies} }},
	{1, func(r *rand.Rand) Step { return Step{Do: "double", Name: clusterPolicies} }},
}

// withClusterPolicies inserts these steps into one of three histories.
func withClusterPolicies(p Plan) Plan {
	r := rand.New(rand.NewPCG(p.Seed, 7))
	if r.IntN(3) > 0 {
		return p
	}
	return sprinkled(p, r, 5+r.IntN(10), clusterPolicyChoices)
}

// doClusterPolicy executes an administrator's step.
func (w *world) doClusterPolicy(ctx context.Context, s Step) (handled bool, err error) {
	policy := &policyv1alpha2.ClusterNetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: s.Name}}
	switch s.Do {
	case "cluster-policy":
		policy.Spec = clusterPolicyOf(s.N)
		if err := w.api.Create(ctx, policy); !apierrors.IsAlreadyExists(err) {
			return true, err
		}
		return true, change(ctx, w.api, types.NamespacedName{Name: s.Name}, policy, func() { policy.Spec = clusterPolicyOf(s.N) })
	case "delete-cluster-policy":
		return true, client.IgnoreNotFound(w.api.Delete(ctx, policy))
	case "log-cluster-policy":
		return true, w.annotate(ctx, "/"+s.Name, policy, s.What)
	case "tag-node":
		s.Name = "/" + s.Name
		return true, w.tag(ctx, s, &corev1.Node{}, "team")
	}
	return false, nil
}

// clusterPolicyOf derives a policy from a number.
func clusterPolicyOf(n int) policyv1alpha2.ClusterNetworkPolicySpec {
	r := rand.New(rand.NewPCG(uint64(n), 8))
	spec := policyv1alpha2.ClusterNetworkPolicySpec{Tier: policyv1alpha2.Tier(oneOf(r,
		string(policyv1alpha2.AdminTier), string(policyv1alpha2.BaselineTier))), Priority: int32(r.IntN(4))}
	spec.Subject.Namespaces, spec.Subject.Pods = clusterPods(r)
	for range r.IntN(3) {
		rule := policyv1alpha2.ClusterNetworkPolicyIngressRule{Action: clusterAction(r), Protocols: clusterPorts(r)}
		for range 1 + r.IntN(2) {
			namespaces, pods := clusterPods(r)
			rule.From = append(rule.From, policyv1alpha2.ClusterNetworkPolicyIngressPeer{Namespaces: namespaces, Pods: pods})
		}
		spec.Ingress = append(spec.Ingress, rule)
	}
	for range r.IntN(3) {
		rule := policyv1alpha2.ClusterNetworkPolicyEgressRule{Action: clusterAction(r), Protocols: clusterPorts(r)}
		for range 1 + r.IntN(2) {
			rule.To = append(rule.To, clusterEgressPeer(r))
		}
		spec.Egress = append(spec.Egress, rule)
	}
	return spec
}

func clusterAction(r *rand.Rand) policyv1alpha2.ClusterNetworkPolicyRuleAction {
	return []policyv1alpha2.ClusterNetworkPolicyRuleAction{policyv1alpha2.ClusterNetworkPolicyRuleActionAccept,
		policyv1alpha2.ClusterNetworkPolicyRuleActionDeny, policyv1alpha2.ClusterNetworkPolicyRuleActionPass}[r.IntN(3)]
}

// clusterPods selects namespaces or pods.
func clusterPods(r *rand.Rand) (*metav1.LabelSelector, *policyv1alpha2.NamespacedPod) {
	namespaces := teams(r)
	if r.IntN(2) == 0 {
		return &namespaces, nil
	}
	return nil, &policyv1alpha2.NamespacedPod{NamespaceSelector: namespaces, PodSelector: teams(r)}
}

func clusterEgressPeer(r *rand.Rand) (peer policyv1alpha2.ClusterNetworkPolicyEgressPeer) {
	switch r.IntN(5) {
	case 0:
		peer.Networks = []policyv1alpha2.CIDR{"192.0.2.0/24", "2001:db8::/64"}
	case 1:
		nodes := teams(r)
		peer.Nodes = &nodes
	case 2:
		names := []policyv1alpha2.DomainName{"n1.example.org", "N3.example.org.", "bad.example.org", "*.example.org"}
		peer.DomainNames = []policyv1alpha2.DomainName{names[r.IntN(4)]}
	default:
		peer.Namespaces, peer.Pods = clusterPods(r)
	}
	return peer
}

func clusterPorts(r *rand.Rand) (ports []policyv1alpha2.ClusterNetworkPolicyProtocol) {
	for range r.IntN(3) {
		ports = append(ports, []policyv1alpha2.ClusterNetworkPolicyProtocol{
			{TCP: &policyv1alpha2.ClusterNetworkPolicyProtocolTCP{DestinationPort: &policyv1alpha2.Port{Number: 443}}},
			{UDP: &policyv1alpha2.ClusterNetworkPolicyProtocolUDP{}}, {DestinationNamedPort: "web"}}[r.IntN(3)])
	}
	return ports
}

// clusterFacts reads a policy's present spec.
func (o *oracle) clusterFacts(policy *policyv1alpha2.ClusterNetworkPolicy) (read facts.ClusterPolicy, invalid error) {
	read, invalid = facts.ParseClusterPolicy(policy, o.numbers, func(selector labels.Selector) []netip.Addr {
		var nodes []corev1.Node
		for _, name := range slices.Sorted(maps.Keys(o.nodes)) {
			nodes = append(nodes, *o.nodes[name])
		}
		return facts.AddressesOfNodes(selector, nodes)
	})
	read.Logging = o.loggingOf(policy)
	return read, invalid
}

// checkClusterPolicies checks that each policy reports whether its rules are in force.
func (o *oracle) checkClusterPolicies() {
	for i := range o.clusterPolicies {
		policy := &o.clusterPolicies[i]
		_, invalid := o.clusterFacts(policy)
		c := meta.FindStatusCondition(policy.Status.Conditions, networkv1alpha1.ConditionReady)
		if c == nil || (c.Status == metav1.ConditionTrue) != (invalid == nil) || c.ObservedGeneration != policy.Generation {
			o.complain("ClusterNetworkPolicy %s of generation %d has condition %+v; its error is %v", policy.Name,
				policy.Generation, c, invalid)
		}
	}
}

// sprinkled inserts a number of steps into a plan.
func sprinkled(p Plan, r *rand.Rand, steps int, from []choice) Plan {
	for range steps {
		p.Steps = slices.Insert(p.Steps, r.IntN(len(p.Steps)+1), draw(r, from))
	}
	return p
}
