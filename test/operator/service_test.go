package operator

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	weftnames "github.com/weft-network/weft/pkg/ovn/names"
	"github.com/weft-network/weft/pkg/ovn/nbdb"
)

// service creates a Service with a TCP port 80, which change may alter. The API server chooses its cluster IP.
func (w *world) service(name string, change ...func(*corev1.Service)) *corev1.Service {
	w.Helper()
	service := serviceObject(name, change...)
	w.must(api.Create(w.Context(), service))
	return service
}

func serviceObject(name string, change ...func(*corev1.Service)) *corev1.Service {
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: corev1.ServiceSpec{
		Ports: []corev1.ServicePort{{Name: "http", Port: 80, Protocol: corev1.ProtocolTCP}},
	}}
	for _, c := range change {
		c(service)
	}
	return service
}

// endpoints creates a slice of a service whose port "http" is 8080.
func (w *world) endpoints(name, service string, addresses ...string) *discoveryv1.EndpointSlice {
	w.Helper()
	slice := sliceObject(name, service, addresses...)
	w.must(api.Create(w.Context(), slice))
	return slice
}

func sliceObject(name, service string, addresses ...string) *discoveryv1.EndpointSlice {
	port, number := "http", int32(8080)
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: "default", Name: name, Labels: map[string]string{discoveryv1.LabelServiceName: service}},
		AddressType: discoveryv1.AddressTypeIPv4, Ports: []discoveryv1.EndpointPort{{Name: &port, Port: &number}},
	}
	for _, address := range addresses {
		slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{Addresses: []string{address}})
	}
	return slice
}

// balances waits until the service has exactly these load balancers: protocol -> VIP -> backends.
func (w *world) balances(service string, want map[string]map[string]string) {
	w.Helper()
	w.until(func() error {
		rows, err := w.rows.Rows(w.Context())
		if err != nil {
			return err
		}
		have := map[string]map[string]string{}
		for _, row := range rows[nbdb.LoadBalancerTable] {
			if lb, ok := row.(*nbdb.LoadBalancer); ok && lb.ExternalIDs["k8s.ovn.org/owner"] == "default/"+service {
				have[*lb.Protocol] = lb.Vips
				if !w.inGroup(lb.UUID) {
					return fmt.Errorf("load balancer %s is not in the group", lb.Name)
				}
			}
		}
		if diff := cmp.Diff(want, have); diff != "" {
			return fmt.Errorf("load balancers of %s (-want +have):\n%s", service, diff)
		}
		return nil
	})
}

// inGroup queries the server, because the group's members are not monitored.
func (w *world) inGroup(uuid string) bool {
	w.Helper()
	group := w.nb.Ctl("--bare", "--columns=load_balancer", "find", "Load_Balancer_Group", "name=clusterLBGroup")
	return slices.Contains(strings.Fields(group), uuid)
}

// settledServices returns a network with one node.
func settledServices(t *testing.T) *world {
	w := newWorld(t)
	w.start()
	w.network(dualStack()...)
	w.join("n1")
	return w
}

func TestServiceFollowsItsSlices(t *testing.T) {
	w := settledServices(t)
	web := w.service("web")
	vip := web.Spec.ClusterIP + ":80"
	w.balances("web", map[string]map[string]string{"tcp": {vip: ""}})

	first, second := w.endpoints("web-a", "web", "10.244.0.3"), w.endpoints("web-b", "web", "10.244.1.3", "10.244.0.3")
	w.balances("web", map[string]map[string]string{"tcp": {vip: "10.244.0.3:8080,10.244.1.3:8080"}})

	patch(w, second, func(s *discoveryv1.EndpointSlice) { s.Labels[discoveryv1.LabelServiceName] = "other" })
	w.balances("web", map[string]map[string]string{"tcp": {vip: "10.244.0.3:8080"}})

	w.must(api.Delete(w.Context(), first))
	w.balances("web", map[string]map[string]string{"tcp": {vip: ""}})

	patch(w, web, func(s *corev1.Service) { s.Spec.ExternalIPs = []string{"192.0.2.9"} })
	w.balances("web", map[string]map[string]string{"tcp": {vip: "", "192.0.2.9:80": ""}})

	other := w.service("other", func(s *corev1.Service) {
		s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Name: "dns", Port: 53, Protocol: corev1.ProtocolUDP})
	})
	w.balances("other", map[string]map[string]string{
		"tcp": {other.Spec.ClusterIP + ":80": "10.244.0.3:8080,10.244.1.3:8080"}, "udp": {other.Spec.ClusterIP + ":53": ""},
	})
	w.must(api.Delete(w.Context(), web))
	w.balances("web", map[string]map[string]string{})
}

// TestServiceWithoutAddresses checks that a service that becomes headless, or an external name, loses its load
// balancers.
func TestServiceWithoutAddresses(t *testing.T) {
	w := settledServices(t)
	web := w.service("web")
	w.balances("web", map[string]map[string]string{"tcp": {web.Spec.ClusterIP + ":80": ""}})
	patch(w, web, func(s *corev1.Service) {
		s.Spec.Type, s.Spec.ExternalName, s.Spec.ClusterIP, s.Spec.ClusterIPs = corev1.ServiceTypeExternalName, "example.org", "", nil
	})
	w.balances("web", map[string]map[string]string{})
	w.service("headless", func(s *corev1.Service) { s.Spec.ClusterIP = corev1.ClusterIPNone })
	w.balances("headless", map[string]map[string]string{})
	proxied := map[string]string{weftnames.ServiceProxyLabel: "x"}
	other := w.service("other", func(s *corev1.Service) { s.Labels = proxied })
	w.balances("other", map[string]map[string]string{})
	patch(w, other, func(s *corev1.Service) { s.Labels = nil })
	w.balances("other", map[string]map[string]string{"tcp": {other.Spec.ClusterIP + ":80": ""}})
	patch(w, other, func(s *corev1.Service) { s.Labels = proxied })
	w.balances("other", map[string]map[string]string{})
}

// TestServicesAfterARestart checks that services and slices deleted while the operator was down leave no rows, and
// the others cost nothing.
func TestServicesAfterARestart(t *testing.T) {
	w := newWorld(t)
	o := w.start()
	w.network(dualStack()...)
	w.join("n1")
	kept, gone := w.service("kept"), w.service("gone")
	w.endpoints("kept-a", "kept", "10.244.0.3")
	ending := w.endpoints("kept-b", "kept", "10.244.0.4")
	w.balances("kept", map[string]map[string]string{"tcp": {kept.Spec.ClusterIP + ":80": "10.244.0.3:8080,10.244.0.4:8080"}})
	w.balances("gone", map[string]map[string]string{"tcp": {gone.Spec.ClusterIP + ":80": ""}})
	o.stop()
	before := w.nb.Transactions()
	w.must(api.Delete(w.Context(), gone))
	w.must(api.Delete(w.Context(), ending))
	w.start()
	w.balances("gone", map[string]map[string]string{})
	w.balances("kept", map[string]map[string]string{"tcp": {kept.Spec.ClusterIP + ":80": "10.244.0.3:8080"}})
	// The transactions are the fence, the deleted service, its cluster IPs in the sets that refuse unused ports, and
	// the deleted endpoint.
	if n := w.nb.Transactions() - before; n > 4 {
		t.Errorf("%d transactions", n)
	}
}

// clearServices deletes all services except the API server's own.
func (w *world) clearServices(ctx context.Context) {
	w.Helper()
	var services corev1.ServiceList
	w.must(api.List(ctx, &services, client.InNamespace("default")))
	for i := range services.Items {
		if services.Items[i].Name != "kubernetes" {
			w.must(client.IgnoreNotFound(api.Delete(ctx, &services.Items[i])))
		}
	}
	own, err := labels.NewRequirement(discoveryv1.LabelServiceName, selection.NotIn, []string{"kubernetes"})
	w.must(err)
	w.must(api.DeleteAllOf(ctx, &discoveryv1.EndpointSlice{}, client.InNamespace("default"),
		client.MatchingLabelsSelector{Selector: labels.NewSelector().Add(*own)}))
}

// TestPlansOfServicesComeTrue checks that a plan for services and slices equals the change when they are applied.
func TestPlansOfServicesComeTrue(t *testing.T) {
	w := newWorld(t)
	o, _ := w.settled([]string{"n1"}, 1)
	fixed := func(s *corev1.Service) { s.Spec.ClusterIP, s.Spec.ClusterIPs = "10.96.0.77", []string{"10.96.0.77"} }
	planned := serviceObject("web", fixed)
	w.comesTrue(o.plan([]string{"plan"}, w.dryRun(planned)), func() string {
		w.service("web", fixed)
		return ""
	})
	slice := sliceObject("web-a", "web", "10.244.0.3")
	w.comesTrue(o.plan([]string{"plan"}, w.dryRun(slice)), func() string {
		w.endpoints("web-a", "web", "10.244.0.3")
		return ""
	})
	var web corev1.Service
	w.must(api.Get(w.Context(), client.ObjectKeyFromObject(planned), &web))
	w.comesTrue(o.plan([]string{"plan", "--delete"}, &web), func() string {
		w.must(api.Delete(w.Context(), &web))
		return ""
	})
}

// TestAddressOfTwoServices checks that only one of two services gets a shared address, until it releases it.
func TestAddressOfTwoServices(t *testing.T) {
	w := settledServices(t)
	shared := func(s *corev1.Service) { s.Spec.ExternalIPs = []string{"192.0.2.9"} }
	first, second := w.service("a-first", shared), w.service("b-second", shared)
	w.balances("a-first", map[string]map[string]string{"tcp": {first.Spec.ClusterIP + ":80": "", "192.0.2.9:80": ""}})
	w.balances("b-second", map[string]map[string]string{"tcp": {second.Spec.ClusterIP + ":80": ""}})
	w.says(w.event("b-second", "AddressConflict"), "192.0.2.9:80", "default/a-first")
	patch(w, first, func(s *corev1.Service) { s.Spec.ExternalIPs = nil })
	w.balances("b-second", map[string]map[string]string{"tcp": {second.Spec.ClusterIP + ":80": "", "192.0.2.9:80": ""}})
}

// TestServiceNetworksMustAgree checks that a network of cluster IPs that nodes do not route is reported until it is
// gone.
func TestServiceNetworksMustAgree(t *testing.T) {
	w := settledServices(t)
	more := &networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{Name: "more"},
		Spec: networkingv1.ServiceCIDRSpec{CIDRs: []string{"10.97.0.0/24"}}}
	w.must(api.Create(w.Context(), more))
	t.Cleanup(func() { w.must(client.IgnoreNotFound(api.Delete(context.Background(), more))) })
	degraded := func(reason string, status metav1.ConditionStatus) {
		t.Helper()
		w.status(func(s networkv1alpha1.ClusterNetworkStatus) error {
			return condition(s.Conditions, networkv1alpha1.ConditionDegraded, reason, status)
		})
	}
	degraded(networkv1alpha1.ReasonServiceNetworkMismatch, metav1.ConditionTrue)
	w.must(api.Delete(w.Context(), more))
	degraded(networkv1alpha1.ReasonAsExpected, metav1.ConditionFalse)
}

// A ClusterNetwork without serviceNetwork uses the API server's, keeps it, and gets another family's with the family.
func TestServiceNetworkIsRead(t *testing.T) {
	w := newWorld(t)
	first := w.start()
	cn := &networkv1alpha1.ClusterNetwork{ObjectMeta: metav1.ObjectMeta{Name: networkv1alpha1.ClusterNetworkName}}
	cn.Spec.ClusterNetwork = dualStack()[:1]
	w.must(api.Create(t.Context(), cn))
	w.join("n1")
	read := func(want ...networkv1alpha1.CIDR) {
		t.Helper()
		w.status(func(s networkv1alpha1.ClusterNetworkStatus) error {
			if !slices.Equal(s.ServiceNetwork, want) {
				return fmt.Errorf("status.serviceNetwork is %v, want %v", s.ServiceNetwork, want)
			}
			return nil
		})
		w.until(func() error {
			if have := w.nodeNetwork("n1").Spec.ServiceSubnets; !slices.Equal(have, want) {
				return fmt.Errorf("the node routes %v to services, want %v", have, want)
			}
			return nil
		})
	}
	read("10.96.0.0/16")
	w.port(w.create("n1", "web")[0])
	w.must(api.Patch(t.Context(), cn, client.RawPatch(types.MergePatchType,
		[]byte(`{"spec":{"clusterNetwork":[{"cidr":"10.244.0.0/16","hostPrefix":26},{"cidr":"fd00:10:244::/48","hostPrefix":64}]}}`))))
	read("10.96.0.0/16", "fd00:10:96::/112")
	first.stop()
	w.start()
	read("10.96.0.0/16", "fd00:10:96::/112")
}
