package histories

import (
	"context"
	"math/rand/v2"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/topology"
)

// egressQoSes is the resource of EgressQoSes.
const egressQoSes = "egressqoses"

// qosChoices are the steps of EgressQoSes, drawn separately from the others.
var qosChoices = []choice{
	{10, func(r *rand.Rand) Step { return Step{Do: "qos", Name: oneOf(r, "a", "b"), N: r.IntN(10_000)} }},
	{4, func(r *rand.Rand) Step { return Step{Do: "delete-qos", Name: oneOf(r, "a", "b")} }},
	{5, func(r *rand.Rand) Step {
		return Step{Do: "tag-pod", Name: aPod(r), What: oneOf(r, "red", "blue", "no")}
	}},
	{4, func(r *rand.Rand) Step { return Step{Do: "agent", Name: aNode(r), N: r.IntN(3)} }},
	{2, func(r *rand.Rand) Step { return Step{Do: "delay", Name: egressQoSes} }},
	{2, func(r *rand.Rand) Step { return Step{Do: "deliver", Name: egressQoSes} }},
	{1, func(r *rand.Rand) Step { return Step{Do: "lose", Name: egressQoSes} }},
	{1, func(r *rand.Rand) Step { return Step{Do: "double", Name: egressQoSes} }},
	{3, func(r *rand.Rand) Step {
		return Step{Do: "vandal", What: oneOf(r, "delete-Address_Set", "qos"), N: r.IntN(100)}
	}},
}

// withQoS inserts steps of EgressQoSes into half of the histories.
func withQoS(p Plan) Plan {
	r := rand.New(rand.NewPCG(p.Seed, 20))
	if r.IntN(2) == 0 {
		return p
	}
	return sprinkled(p, r, 4+r.IntN(10), qosChoices)
}

// doQoS executes steps of namespace administrators.
func (w *world) doQoS(ctx context.Context, s Step) (handled bool, err error) {
	key := types.NamespacedName{Namespace: s.Name, Name: networkv1alpha1.EgressQoSName}
	qos := &networkv1alpha1.EgressQoS{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
	switch s.Do {
	case "qos":
		qos.Spec = qosOf(s.N)
		if err := w.api.Create(ctx, qos); !apierrors.IsAlreadyExists(err) {
			return true, err
		}
		return true, change(ctx, w.api, key, qos, func() { qos.Spec = qosOf(s.N) })
	case "delete-qos":
		return true, client.IgnoreNotFound(w.api.Delete(ctx, qos))
	}
	return false, nil
}

// qosOf derives rules from a number.
func qosOf(n int) networkv1alpha1.EgressQoSSpec {
	r := rand.New(rand.NewPCG(uint64(n), 21))
	spec := networkv1alpha1.EgressQoSSpec{Egress: []networkv1alpha1.EgressQoSRule{}}
	for range 1 + r.IntN(4) {
		var rule networkv1alpha1.EgressQoSRule
		if r.IntN(4) > 0 {
			dscp := int32(r.IntN(64))
			rule.DSCP = &dscp
		}
		if rule.DSCP == nil || r.IntN(3) == 0 {
			rule.Bandwidth = &networkv1alpha1.EgressQoSBandwidth{Rate: 1000 * int64(1+r.IntN(9)), Burst: 600 * int64(r.IntN(2))}
		}
		rule.DstCIDR = oneOf(r, "", "192.0.2.0/24", "192.0.2.128/25", "2001:db8::/32")
		if r.IntN(2) == 0 {
			selector := teams(r)
			rule.PodSelector = &selector
			if r.IntN(10) == 0 { // an invalid operator
				rule.PodSelector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "team", Operator: "Near"}}
			}
		}
		spec.Egress = append(spec.Egress, rule)
	}
	return spec
}

// qosFacts reads an EgressQoS as it must be in force.
func (o *oracle) qosFacts(qos *networkv1alpha1.EgressQoS) (facts.EgressQoS, error) {
	var local []string
	for name, nn := range o.networks {
		if !o.elsewhere(name) && nn.Status.Gateway != nil && nn.Status.Gateway.Mode == networkv1alpha1.GatewayLocal {
			local = append(local, name)
		}
	}
	slices.Sort(local)
	return facts.ParseEgressQoS(qos, local)
}

// expectQoS expects the rules of each EgressQoS. The sets that they name are expected with the sets of policies.
func (o *oracle) expectQoS() {
	for i := range o.qos {
		read, _ := o.qosFacts(&o.qos[i])
		o.units = append(o.units, topology.EgressQoSUnit(read))
	}
}

// checkQoS checks that each EgressQoS reports whether its rules are in force.
func (o *oracle) checkQoS() {
	for i := range o.qos {
		qos := &o.qos[i]
		_, invalid := o.qosFacts(qos)
		c := meta.FindStatusCondition(qos.Status.Conditions, networkv1alpha1.ConditionReady)
		if c == nil || c.ObservedGeneration != qos.Generation || (c.Status == metav1.ConditionTrue) != (invalid == nil) {
			o.complain("EgressQoS %s of generation %d has condition %+v; its rules: %v", qos.Namespace, qos.Generation, c, invalid)
		}
	}
}
