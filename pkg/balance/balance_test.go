package balance

import (
	"net/netip"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

// A Service yields an external IP to an older IPPool, but no address that a LoadBalancerPool gave it: the IPPool got the address later.
func TestAGivenAddressDoesNotYield(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := networkv1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	pool := &networkv1alpha1.IPPool{ObjectMeta: metav1.ObjectMeta{Name: "nat", CreationTimestamp: metav1.NewTime(time.Unix(1, 0))}}
	pool.Spec = networkv1alpha1.IPPoolSpec{Location: networkv1alpha1.LocationNAT,
		Ranges: []networkv1alpha1.IPPoolRange{{Addresses: "192.0.2.0/28"}}}
	reader := Reader{fake.NewClientBuilder().WithScheme(scheme).WithObjects(pool).Build()}
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(time.Unix(2, 0))}}
	s.Spec.ClusterIPs = []string{"10.96.0.7"}
	s.Spec.Type, s.Spec.ExternalIPs = corev1.ServiceTypeLoadBalancer, []string{"192.0.2.1"}
	s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "192.0.2.2"}}
	for given, want := range map[bool]string{false: "nat", true: ""} {
		if s.Status.Conditions = nil; given {
			s.Status.Conditions = []metav1.Condition{{Type: networkv1alpha1.ServiceLoadBalancerReady}}
		}
		owner, err := reader.pools(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		if have := owner(netip.MustParseAddr("192.0.2.1")); have != "nat" {
			t.Errorf("the external IP belongs to %q", have)
		}
		if have := owner(netip.MustParseAddr("192.0.2.2")); have != want {
			t.Errorf("given %v: the address belongs to %q, want %q", given, have, want)
		}
	}
}
