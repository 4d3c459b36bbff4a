package histories

import (
	"context"
	"math/rand/v2"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	cniv1beta1 "github.com/weft-network/weft/apis/cni/v1beta1"
	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/invariant"
	"github.com/weft-network/weft/pkg/networks"
	"github.com/weft-network/weft/pkg/ovn/ovnexpr"
	"github.com/weft-network/weft/pkg/unit"
)

// multiPolicies is the resource of MultiNetworkPolicies.
const multiPolicies = "multi-networkpolicies"

// multiPolicyChoices are the steps of MultiNetworkPolicies, drawn separately from the others.
var multiPolicyChoices = []choice{
	{12, func(r *rand.Rand) Step { return Step{Do: "multi-policy", Name: aPolicy(r), N: r.IntN(10_000)} }},
	{4, func(r *rand.Rand) Step { return Step{Do: "delete-multi-policy", Name: aPolicy(r)} }},
	{3, func(r *rand.Rand) Step { return Step{Do: "apply-multi-policy", Name: aPolicy(r), N: r.IntN(100)} }},
	{6, func(r *rand.Rand) Step { return Step{Do: "requester", Name: aPod(r), Node: aNode(r), N: aRequest(r)} }},
	{4, func(r *rand.Rand) Step {
		return Step{Do: "tag-pod", Name: aPod(r), What: oneOf(r, "red", "blue", "no")}
	}},
	{2, func(r *rand.Rand) Step {
		return Step{Do: "tag-namespace", Name: oneOf(r, "a", "b"), What: oneOf(r, "red", "blue", "no")}
	}},
	{2, func(r *rand.Rand) Step { return Step{Do: "delay", Name: multiPolicies} }},
	{2, func(r *rand.Rand) Step { return Step{Do: "deliver", Name: multiPolicies} }},
	{1, func(r *rand.Rand) Step { return Step{Do: "lose", Name: multiPolicies} }},
	{1, func(r *rand.Rand) Step { return Step{Do: "double", Name: multiPolicies} }},
	{2, func(r *rand.Rand) Step {
		return Step{Do: "vandal", What: oneOf(r, "delete-Port_Group", "delete-Address_Set", "priority", "match"), N: r.IntN(100)}
	}},
}

// withMultiPolicies inserts steps of MultiNetworkPolicies into half of the histories.
func withMultiPolicies(p Plan) Plan {
	r := rand.New(rand.NewPCG(p.Seed, 12))
	if r.IntN(2) == 0 {
		return p
	}
	return sprinkled(p, r, 6+r.IntN(12), multiPolicyChoices)
}

// policiesFor are the networks that policies list: names, several, another namespace's, a missing network, and none.
var policiesFor = []string{"x0", "x0,x1", "x0, x1, x2", "y0", "a/x1", "b/x2,a/x0", "x1,missing", "Bad_Name,x2", ""}

// doMultiPolicy executes steps of namespace owners.
func (w *world) doMultiPolicy(ctx context.Context, s Step) (handled bool, err error) {
	key := podKey(s.Name)
	policy := &cniv1beta1.MultiNetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
	fill := func(annotation bool) {
		if policy.Spec = policyOf(s.N); annotation {
			metav1.SetMetaDataAnnotation(&policy.ObjectMeta, cniv1beta1.PolicyForAnnotation, policiesFor[s.N%len(policiesFor)])
		}
	}
	switch s.Do {
	case "multi-policy":
		fill(true)
		if err := w.api.Create(ctx, policy); err == nil || ignoreExists(err) != nil {
			return true, err
		}
		return true, change(ctx, w.api, key, policy, func() { fill(s.N%3 == 0) })
	case "apply-multi-policy":
		return true, change(ctx, w.api, key, policy, func() {
			metav1.SetMetaDataAnnotation(&policy.ObjectMeta, cniv1beta1.PolicyForAnnotation, policiesFor[s.N%len(policiesFor)])
		})
	case "delete-multi-policy":
		return true, client.IgnoreNotFound(w.api.Delete(ctx, policy))
	}
	return false, nil
}

// multiFacts reads a MultiNetworkPolicy with the Networks to which it applies.
func (o *oracle) multiFacts(policy *cniv1beta1.MultiNetworkPolicy) facts.MultiNetworkPolicy {
	read, _ := facts.ParseMultiNetworkPolicy(policy, o.networksOf(policy), o.numbers)
	read.Logging = o.loggingOf(policy)
	return read
}

// networksOf returns the Networks of the definitions that a policy lists, sorted.
func (o *objects) networksOf(policy *cniv1beta1.MultiNetworkPolicy) (found []string) {
	listed, _ := networks.PolicyFor(policy.Annotations, policy.Namespace)
	for _, name := range listed {
		nad := o.definitions[name]
		if nad == nil {
			continue
		}
		if definition, err := networks.ParseDefinition(nad); err == nil && definition.Network != "" {
			found = append(found, definition.Network)
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}

// selectedOn lists the units of the groups and sets that contain a pod's port on a Network.
func (o *oracle) selectedOn(pod *corev1.Pod, network string) (keys []unit.Key) {
	selected := o.selected(pod)
	selected.Network = network
	for key, selector := range o.selectors() {
		if selector.Matches(selected) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

// networkAddresses returns the addresses of a port on a Network.
func networkAddresses(r row) (addresses []string) {
	for _, text := range atoms(r["addresses"]) {
		if port, err := ovnexpr.ParsePortAddress(text); err == nil {
			for _, address := range port.Addresses {
				addresses = append(addresses, address.String())
			}
		}
	}
	return addresses
}

func (w *world) readMultiPolicies(ctx context.Context) (all []invariant.MultiNetworkPolicy, err error) {
	o, err := w.read(ctx)
	if err != nil {
		return nil, err
	}
	for i := range o.multiPolicies {
		policy := &o.multiPolicies[i]
		all = append(all, invariant.MultiNetworkPolicy{Policy: policy, Networks: o.networksOf(policy)})
	}
	return all, nil
}
