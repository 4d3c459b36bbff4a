package histories

import (
	"math/rand/v2"
	"net/netip"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/addresses/lbpool"
	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/topology"
)

// leavingChoices are steps of Services whose addresses are the source of their pods outside, drawn separately from the others.
var leavingChoices = []choice{
	{12, func(r *rand.Rand) Step {
		return Step{Do: "leave-by", Name: oneOf(r, "a", "b") + "/" + oneOf(r, "l0", "l1", "l2"),
			What: oneOf(r, networkv1alpha1.EgressSourceLoadBalancer, networkv1alpha1.EgressSourceLoadBalancer, "", "Network")}
	}},
	{6, func(r *rand.Rand) Step {
		return Step{Do: "lb-service", Name: oneOf(r, "a", "b") + "/" + oneOf(r, "l0", "l1"), N: 2 * r.IntN(4)}
	}},
	{6, func(r *rand.Rand) Step { return Step{Do: "lb-pool", Name: "p0", What: "unclassed", N: r.IntN(3)} }},
	{4, func(r *rand.Rand) Step {
		return Step{Do: "tag-pod", Name: aPod(r), What: oneOf(r, "red", "blue", "no")}
	}},
	{3, func(r *rand.Rand) Step { return Step{Do: "agent", Name: aNode(r), N: r.IntN(3)} }},
	{2, func(r *rand.Rand) Step { return Step{Do: "cordon", Name: aNode(r), N: r.IntN(2)} }},
	{2, func(r *rand.Rand) Step { return Step{Do: "delay", Name: oneOf(r, "services", "loadbalancerpools")} }},
	{2, func(r *rand.Rand) Step { return Step{Do: "deliver", Name: oneOf(r, "services", "loadbalancerpools")} }},
	{1, func(r *rand.Rand) Step { return Step{Do: "crash"} }},
}

// withLeaving inserts such steps into a third of the histories.
func withLeaving(p Plan) Plan {
	r := rand.New(rand.NewPCG(p.Seed, 27))
	if r.IntN(3) > 0 {
		return p
	}
	return sprinkled(p, r, 8+r.IntN(12), leavingChoices)
}

// leaving reads a Service whose addresses are the source of its pods. granted is false if it does not request that, or cannot have it.
func (o *oracle) leaving(s *corev1.Service) (read facts.EgressIP, granted bool, trouble error) {
	granted, trouble = facts.EgressSource(s)
	if !granted {
		return read, false, trouble
	}
	announced, gateways := map[netip.Addr]string{}, map[string]facts.Gateway{}
	for i := range o.balancers {
		for _, a := range o.balancers[i].Status.Announcements {
			if address, err := a.Address.Addr(); err == nil {
				announced[address] = a.Node
			}
		}
	}
	for name, nn := range o.networks {
		if node := o.nodes[name]; node != nil {
			if gateway, err := facts.ParseGateway(nn, node); err == nil {
				o.reach(&gateway, nn)
				gateways[name] = gateway
			}
		}
	}
	read, trouble = facts.ParseEgressService(s, lbpool.ForeignShares(s, o.services), announced, gateways)
	return read, true, trouble
}

// expectLeaving expects the rows of Services that are the source of their pods.
func (o *oracle) expectLeaving() {
	for i := range o.services {
		if read, granted, _ := o.leaving(&o.services[i]); granted {
			o.units = append(o.units, topology.EgressIPUnit(read))
		}
	}
}

// checkLeaving checks that each of them says whether it is.
func (o *oracle) checkLeaving() {
	for i := range o.services {
		s := &o.services[i]
		_, granted, trouble := o.leaving(s)
		c := meta.FindStatusCondition(s.Status.Conditions, networkv1alpha1.ServiceEgressSource)
		want, status := networkv1alpha1.ReasonNotRequested, metav1.ConditionFalse
		switch {
		case granted && trouble == nil:
			want, status = networkv1alpha1.ReasonAsExpected, metav1.ConditionTrue
		case granted && strings.Contains(trouble.Error(), "is shared with"):
			want = networkv1alpha1.ReasonAddressShared
		case granted:
			want = networkv1alpha1.ReasonNotAnswered
		case trouble != nil:
			want = networkv1alpha1.ReasonInvalidAnnotation
		case c == nil:
			continue
		}
		if c == nil || c.Reason != want || c.Status != status {
			o.complain("Service %s/%s has condition %+v, want %s %s: %v", s.Namespace, s.Name, c, status, want, trouble)
		}
	}
}
