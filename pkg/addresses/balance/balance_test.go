package balance

import (
	"net/netip"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/event"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

// A Service yields an external IP to an IPPool that has it in force, but no address that a LoadBalancerPool gave it: the IPPool got the
// address later.
func TestAGivenAddressDoesNotYield(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := networkv1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	pool := natPool("192.0.2.0/28", "192.0.2.0-192.0.2.15")
	reader := Reader{Reader: fake.NewClientBuilder().WithScheme(scheme).WithObjects(pool).Build()}
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(time.Unix(2, 0))}}
	s.Spec.ClusterIPs = []string{"10.96.0.7"}
	s.Spec.Type, s.Spec.ExternalIPs = corev1.ServiceTypeLoadBalancer, []string{"192.0.2.1"}
	s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "192.0.2.2"}}
	for given, want := range map[bool]string{false: "IPPool nat", true: ""} {
		if s.Status.Conditions = nil; given {
			s.Status.Conditions = []metav1.Condition{{Type: networkv1alpha1.ServiceLoadBalancerReady}}
		}
		claims, err := reader.claims(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		if have := claims.Owner(s, netip.MustParseAddr("192.0.2.1")); have != "IPPool nat" {
			t.Errorf("the external IP belongs to %q", have)
		}
		if have := claims.Owner(s, netip.MustParseAddr("192.0.2.2")); have != want {
			t.Errorf("given %v: the address belongs to %q, want %q", given, have, want)
		}
	}
}

// natPool returns a NAT pool with a range of its spec, and with ranges in force.
func natPool(spec string, inForce ...string) *networkv1alpha1.IPPool {
	p := &networkv1alpha1.IPPool{ObjectMeta: metav1.ObjectMeta{Name: "nat", CreationTimestamp: metav1.NewTime(time.Unix(1, 0))}}
	p.Spec = networkv1alpha1.IPPoolSpec{Location: networkv1alpha1.LocationNAT, Ranges: []networkv1alpha1.IPPoolRange{{Addresses: spec}}}
	p.Status.Ranges = inForce
	return p
}

// Services are reconciled again when the ranges in force of a NAT pool change, and at no other event of a pool.
func TestOnlyRangesInForceWakeServices(t *testing.T) {
	const a, b = "192.0.2.1", "192.0.2.2"
	passes, overlay, counted := InForceChanged(), natPool(a, a), natPool(b, a)
	overlay.Spec.Location, counted.Status.Used, counted.Generation = networkv1alpha1.LocationOverlay, 7, 9
	for name, c := range map[string]struct {
		before, after *networkv1alpha1.IPPool
		want          bool
	}{
		"created":                           {nil, natPool(a), false},
		"created, as a start reads it":      {nil, natPool(a, a), true},
		"accepted":                          {natPool(a), natPool(a, a), true},
		"the spec and the counts change":    {natPool(a, a), counted, false},
		"a range is added":                  {natPool(a, a), natPool(a, a, b), true},
		"a range is released":               {natPool(a, a, b), natPool(a, a), true},
		"deleted":                           {natPool(a, a), nil, true},
		"deleted before it was accepted":    {natPool(a), nil, false},
		"a pool with no translation":        {nil, overlay, false},
		"an update of such a pool's ranges": {natPool(a), overlay, false},
	} {
		var have bool
		switch {
		case c.before == nil:
			have = passes.Create(event.CreateEvent{Object: c.after})
		case c.after == nil:
			have = passes.Delete(event.DeleteEvent{Object: c.before})
		default:
			have = passes.Update(event.UpdateEvent{ObjectOld: c.before, ObjectNew: c.after})
		}
		if have != c.want {
			t.Errorf("%s: wakes Services: %t, want %t", name, have, c.want)
		}
	}
}
