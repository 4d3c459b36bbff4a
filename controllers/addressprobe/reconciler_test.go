package addressprobe

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/controllers/kind"
	"github.com/weft-network/weft/pkg/addresses/addressprobe"
	"github.com/weft-network/weft/test/kindtest"
)

// Each address that an EgressIP or a Service waits for is probed by one node. A node that does not answer in time makes way for another
// one. The requests end when nothing waits.
func TestRequests(t *testing.T) {
	now, services, failed := kindtest.Start, []netip.Addr{netip.MustParseAddr("2001:db8::77")}, error(nil)
	e := &networkv1alpha1.EgressIP{ObjectMeta: metav1.ObjectMeta{Name: "out"}}
	e.Status.Probing = []networkv1alpha1.IP{"192.0.2.77"}
	b := kindtest.New(t, func(env *kind.Env) []*kind.Kind {
		kinds := Kinds(env)
		kinds[0].Reconciler.(*Reconciler).Now = func() time.Time { return now }
		return kinds
	}, kind.AddressProbe, func(env *kind.Env) {
		env.ServiceProbes = func(context.Context) ([]netip.Addr, error) { return services, failed }
	}, e)
	for _, id := range []int{1, 2} {
		node, nn := kindtest.Node(t, id, "46")
		nn.Status.Gateway.ProbesAddresses = true
		b.Create(node, nn.DeepCopy())
		b.Update(nn)
	}
	requests := func(name string) (texts []string) {
		for _, p := range kindtest.Get(b, &networkv1alpha1.NodeNetwork{ObjectMeta: metav1.ObjectMeta{Name: name}}).Spec.ProbeAddresses {
			texts = append(texts, string(p.Address))
		}
		return texts
	}
	expect := func(when string, of1, of2 []string, writes ...string) {
		t.Helper()
		have := b.Reconcile("", kind.AllProbes.Name)
		if have1, have2 := requests("n1"), requests("n2"); !slices.Equal(have.Writes, writes) || !slices.Equal(have1, of1) ||
			!slices.Equal(have2, of2) {
			t.Errorf("%s: n1 %v, n2 %v, writes %v; want %v, %v, %v", when, have1, have2, have.Writes, of1, of2, writes)
		}
		if again := b.Reconcile("", kind.AllProbes.Name); len(again.Writes) > 0 {
			t.Errorf("%s: again: %v", when, again.Writes)
		}
	}
	const first, second = "patch NodeNetwork n1", "patch NodeNetwork n2"
	expect("at first", []string{"192.0.2.77"}, []string{"2001:db8::77"}, first, second)
	failed = errors.New("the cache is away")
	if have := b.Reconcile("", kind.AllProbes.Name); have.Err != failed.Error() || len(have.Writes) > 0 {
		t.Errorf("without a list of what Services wait for: %+v", have)
	}
	failed, services = nil, nil
	expect("without a Service", []string{"192.0.2.77"}, nil, second)
	now = now.Add(addressprobe.Patience)
	expect("without an answer", []string{"192.0.2.77"}, []string{"192.0.2.77"}, first, second)
	e.Status.Probing = nil
	b.Update(e)
	expect("when nothing waits", nil, nil, first, second)
}

func TestPredicates(t *testing.T) {
	balanced := &corev1.Service{Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer}}
	given := balanced.DeepCopy()
	given.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "192.0.2.200"}}
	waiting := &networkv1alpha1.EgressIP{Status: networkv1alpha1.EgressIPStatus{Probing: []networkv1alpha1.IP{"192.0.2.77"}}}
	asked := &networkv1alpha1.NodeNetwork{Spec: networkv1alpha1.NodeNetworkSpec{ProbeAddresses: []networkv1alpha1.AddressProbe{{}}}}
	for name, c := range map[string][2]bool{
		"a Service without a load balancer": {requests(event.CreateEvent{Object: &corev1.Service{}}), false},
		"a Service with one":                {requests(event.CreateEvent{Object: balanced}), true},
		"its end":                           {requested(event.DeleteEvent{Object: balanced}), true},
		"the end of another one":            {requested(event.DeleteEvent{Object: &corev1.Service{}}), false},
		"its address":                       {requestChanged(balanced, given), true},
		"nothing of it":                     {requestChanged(given, given.DeepCopy()), false},
		"an EgressIP":                       {probes(event.CreateEvent{Object: &networkv1alpha1.EgressIP{}}), false},
		"an EgressIP that waits":            {probes(event.CreateEvent{Object: waiting}), true},
		"its wait":                          {probingChanged(&networkv1alpha1.EgressIP{}, waiting), true},
		"nothing of an EgressIP":            {probingChanged(waiting, waiting.DeepCopy()), false},
		"a node":                            {hasRequests(event.CreateEvent{Object: &networkv1alpha1.NodeNetwork{}}), false},
		"a node with requests":              {hasRequests(event.CreateEvent{Object: asked}), true},
	} {
		if c[0] != c[1] {
			t.Errorf("%s passes: %t, want %t", name, c[0], c[1])
		}
	}
}
