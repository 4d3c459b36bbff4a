package migrate

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

// ovnEgressQoS translates an EgressQoS of ovn-kubernetes. Its rules have an order, so all are translated or none.
func ovnEgressQoS(i *item) {
	const next = "write the EgressQoS by hand: docs/user/egressqos.md"
	if i.GetName() != networkv1alpha1.EgressQoSName {
		i.cannot("an EgressQoS is named "+networkv1alpha1.EgressQoSName, "rename it")
		return
	}
	made := &networkv1alpha1.EgressQoS{ObjectMeta: metav1.ObjectMeta{Namespace: i.GetNamespace(), Name: i.GetName()}}
	made.SetGroupVersionKind(networkv1alpha1.GroupVersion.WithKind("EgressQoS"))
	spec := i.spec()
	for _, r := range spec.list("egress") {
		var rule networkv1alpha1.EgressQoSRule
		if r.has("dscp") {
			dscp := int32(r.number("dscp"))
			rule.DSCP = &dscp
		}
		if text := r.text("dstCIDR"); text != "" {
			for _, cidr := range i.in.networksOf(i.entry.Object, text) {
				rule.DstCIDR = cidr.String()
			}
		}
		if s, ok := r.selector("podSelector"); ok {
			rule.PodSelector = &s
		}
		if bandwidth := r.inner("bandwidth"); len(bandwidth.left) > 0 {
			rule.Bandwidth = &networkv1alpha1.EgressQoSBandwidth{Rate: bandwidth.number("rate"), Burst: bandwidth.number("burst")}
		}
		made.Spec.Egress = append(made.Spec.Egress, rule)
	}
	if len(i.rest()) > 0 || len(*i.wrong) > 0 {
		i.cannot("unknown fields decide what its rules mean: "+strings.Join(i.rest(), ", "), next)
		return
	}
	i.becomes(fileEgress, made, "")
}
