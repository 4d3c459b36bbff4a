package loadbalancerpool

import (
	"context"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/controllers/kind"
	"github.com/weft-network/weft/pkg/addresses/lbpool"
	"github.com/weft-network/weft/pkg/health"
)

// write records an assignment in the status of a Service if it differs.
func (r *Allocator) write(ctx context.Context, s *corev1.Service, a lbpool.Assignment) error {
	before := kind.Detach(s)
	if !isBalancedOn(s.Status.LoadBalancer.Ingress, a.Addresses) {
		s.Status.LoadBalancer.Ingress = nil
		for _, address := range a.Addresses {
			s.Status.LoadBalancer.Ingress = append(s.Status.LoadBalancer.Ingress, corev1.LoadBalancerIngress{IP: address.String()})
		}
	}
	meta.SetStatusCondition(&s.Status.Conditions, condition(s, a))
	return r.patch(ctx, before, s, a)
}

// release takes the addresses and the condition from a Service that no pool serves any more.
func (r *Allocator) release(ctx context.Context, s *corev1.Service) error {
	before := kind.Detach(s)
	s.Status.LoadBalancer.Ingress = nil
	meta.RemoveStatusCondition(&s.Status.Conditions, networkv1alpha1.ServiceLoadBalancerReady)
	return r.patch(ctx, before, s, lbpool.Assignment{})
}

// patch writes the status of s if it differs from before.
func (r *Allocator) patch(ctx context.Context, before, s *corev1.Service, a lbpool.Assignment) error {
	name := client.ObjectKeyFromObject(s)
	ingress := isBalancedOn(before.Status.LoadBalancer.Ingress, a.Addresses)
	had := meta.FindStatusCondition(before.Status.Conditions, networkv1alpha1.ServiceLoadBalancerReady)
	has := meta.FindStatusCondition(s.Status.Conditions, networkv1alpha1.ServiceLoadBalancerReady)
	if ingress && sameCondition(had, has) {
		delete(r.written, name)
		return nil
	}
	if err := kind.WriteStatus(ctx, r.Client, before, s); err != nil {
		return client.IgnoreNotFound(err)
	}
	r.writes++
	if r.written == nil {
		r.written = map[types.NamespacedName]given{}
	}
	r.written[name] = given{s.UID, a.Addresses}
	r.recordEvents(before, s, a, had)
	return nil
}

// recordEvents records that addresses were given or taken, or why the Service has none.
func (r *Allocator) recordEvents(before, s *corev1.Service, a lbpool.Assignment, had *metav1.Condition) {
	former := lbpool.AddressesOf(before)
	gone := slices.DeleteFunc(slices.Clone(former), func(x netip.Addr) bool { return slices.Contains(a.Addresses, x) })
	fresh := slices.DeleteFunc(slices.Clone(a.Addresses), func(x netip.Addr) bool { return slices.Contains(former, x) })
	if len(gone) > 0 {
		r.Events.Eventf(s, nil, corev1.EventTypeNormal, "LoadBalancerIPReleased", "Allocate", "released %s", texts(gone))
	}
	if len(fresh) > 0 {
		r.Events.Eventf(s, nil, corev1.EventTypeNormal, "LoadBalancerIPAllocated", "Allocate", "%s of LoadBalancerPool %s",
			texts(fresh), strings.Join(slices.Compact(slices.Clone(a.Pools)), ", "))
	}
	if a.Reason != "" && a.Reason != networkv1alpha1.ReasonProbing &&
		(had == nil || had.Reason != a.Reason || had.Message != health.Cut(a.Message)) {
		r.Events.Eventf(s, nil, corev1.EventTypeWarning, a.Reason, "Allocate", "%s", health.Cut(a.Message))
	}
}

// condition returns the condition ServiceLoadBalancerReady.
func condition(s *corev1.Service, a lbpool.Assignment) metav1.Condition {
	c := metav1.Condition{Type: networkv1alpha1.ServiceLoadBalancerReady, Status: metav1.ConditionTrue,
		Reason: networkv1alpha1.ReasonAsExpected, Message: health.Cut(a.Message), ObservedGeneration: s.Generation}
	if a.Reason != "" {
		c.Status, c.Reason = metav1.ConditionFalse, a.Reason
	}
	return c
}

// sameCondition compares what a reader sees. A new generation alone is no reason to write.
func sameCondition(a, b *metav1.Condition) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Status == b.Status && a.Reason == b.Reason && a.Message == b.Message
}

// isBalancedOn reports whether a status has exactly these addresses, as this operator writes them.
func isBalancedOn(ingress []corev1.LoadBalancerIngress, addresses []netip.Addr) bool {
	return slices.EqualFunc(ingress, addresses, func(i corev1.LoadBalancerIngress, a netip.Addr) bool {
		return i.IP == a.String() && i.Hostname == "" && (i.IPMode == nil || *i.IPMode == corev1.LoadBalancerIPModeVIP)
	})
}

func texts(addresses []netip.Addr) string {
	all := make([]string, 0, len(addresses))
	for _, a := range addresses {
		all = append(all, a.String())
	}
	return strings.Join(all, ", ")
}
