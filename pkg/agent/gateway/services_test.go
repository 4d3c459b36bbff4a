package gateway

import (
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/addresses/balance"
	"github.com/weft-network/weft/pkg/agent/desired"
	"github.com/weft-network/weft/pkg/ipam/reserved"
)

// service returns a service of TCP port 443 that was created at a second.
func service(name string, second int64, clusterIP string, externalIPs ...string) *corev1.Service {
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: name, CreationTimestamp: metav1.Unix(second, 0)}}
	s.Spec.ClusterIPs, s.Spec.ExternalIPs = []string{clusterIP}, externalIPs
	s.Spec.Ports = []corev1.ServicePort{{Port: 443, Protocol: corev1.ProtocolTCP}}
	return s
}

// cluster returns a client with the indexes of an agent's cache.
func cluster(t *testing.T, objects ...client.Object) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, discoveryv1.AddToScheme, networkv1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).
		WithIndex(&discoveryv1.EndpointSlice{}, balance.ByService, balance.IndexByService).
		WithIndex(&corev1.Service{}, balance.ByAddress, balance.IndexByAddress).
		WithIndex(&corev1.Service{}, balance.ByExposed, balance.IndexByExposed).Build()
}

// owners lists who has each address outside: "192.0.2.9 a".
func owners(s *Services) (found []string) {
	for name, frontends := range s.byName {
		for _, f := range frontends {
			found = append(found, fmt.Sprintf("%s %s", f.Address, name.Name))
		}
	}
	slices.Sort(found)
	return found
}

// An address is one service's at hosts as it is in OVN, whoever comes first by name, and it passes on when its owner goes.
func TestAnAddressHasOneOwner(t *testing.T) {
	pool := func(created int64, inForce ...string) *networkv1alpha1.IPPool {
		p := &networkv1alpha1.IPPool{ObjectMeta: metav1.ObjectMeta{Name: "edge", CreationTimestamp: metav1.Unix(created, 0)}}
		p.Spec.Location, p.Status.Ranges = networkv1alpha1.LocationNAT, inForce
		p.Spec.Ranges = []networkv1alpha1.IPPoolRange{{Addresses: "192.0.2.64/26"}}
		return p
	}
	for name, c := range map[string]struct {
		objects []client.Object
		want    string
	}{
		"a cluster IP of another service": {
			[]client.Object{service("a", 100, "10.96.0.7", "10.96.0.1"), service("kubernetes", 200, "10.96.0.1")}, ""},
		"an address of an older service": {
			[]client.Object{service("a", 200, "10.96.0.7", "192.0.2.9"), service("b", 100, "10.96.0.8", "192.0.2.9")}, "192.0.2.9 b"},
		"an address that a younger NAT pool has in force": {[]client.Object{service("a", 100, "10.96.0.7", "192.0.2.70", "192.0.2.9"),
			pool(200, "192.0.2.64-192.0.2.127")}, "192.0.2.9 a"},
		"an address that an older NAT pool requests": {
			[]client.Object{service("a", 100, "10.96.0.7", "192.0.2.70"), pool(50)}, "192.0.2.70 a"},
	} {
		t.Run(name, func(t *testing.T) {
			api := cluster(t, c.objects...)
			s := NewServices(api, newHealth(), events.NewFakeRecorder(9), "n1", func() {})
			if err := s.read(t.Context()); err != nil {
				t.Fatal(err)
			}
			if have := strings.Join(owners(s), ", "); have != c.want {
				t.Errorf("addresses outside: %q, want %q", have, c.want)
			}
		})
	}

	older := service("b", 100, "10.96.0.8", "192.0.2.9")
	api := cluster(t, service("a", 200, "10.96.0.7", "192.0.2.9"), older)
	s := NewServices(api, newHealth(), events.NewFakeRecorder(9), "n1", func() {})
	if err := s.read(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := api.Delete(t.Context(), older); err != nil {
		t.Fatal(err)
	}
	own := ctrl.Request{NamespacedName: client.ObjectKeyFromObject(older)}
	for _, request := range append(s.reader.RequestSharing(t.Context(), older), own) {
		if _, err := s.Reconcile(t.Context(), request); err != nil {
			t.Fatal(err)
		}
	}
	if have := strings.Join(owners(s), ", "); have != "192.0.2.9 a" {
		t.Errorf("after the owner went: %q", have)
	}
}

// A health check whose port is taken is an event of its service, and listens when the port is free.
func TestATakenHealthCheckPort(t *testing.T) {
	taken, err := net.Listen("tcp", ":0")
	if err != nil {
		t.Fatal(err)
	}
	port := taken.Addr().(*net.TCPAddr).Port
	web := service("web", 100, "10.96.0.7")
	web.Spec.Type, web.Spec.ExternalTrafficPolicy = corev1.ServiceTypeLoadBalancer, corev1.ServiceExternalTrafficPolicyLocal
	web.Spec.HealthCheckNodePort = int32(port)
	recorder := events.NewFakeRecorder(9)
	s := NewServices(cluster(t, web), newHealth(), recorder, "n1", func() {})
	request := ctrl.Request{NamespacedName: client.ObjectKeyFromObject(web)}
	if _, err := s.Reconcile(t.Context(), request); err == nil || !strings.Contains(err.Error(), fmt.Sprint("port ", port)) {
		t.Errorf("a taken port: %v", err)
	}
	if event := <-recorder.Events; !strings.Contains(event, fmt.Sprint("HealthCheckPortTaken node n1: health check port ", port)) {
		t.Errorf("event %q", event)
	}
	if err := taken.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Reconcile(t.Context(), request); err != nil {
		t.Fatal(err)
	}
	answer, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d", port))
	if err != nil || answer.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("the health check answers %v, %v", answer, err)
	}
	want := []reserved.Port{{Protocol: "tcp", Number: uint16(port), Owner: "the node port of service demo/web"}}
	if got := s.checks.ports(); !slices.Equal(got, want) {
		t.Errorf("reserved ports %v", got)
	}
	if s.checks.forget(request.NamespacedName); len(s.checks.ports()) != 0 {
		t.Errorf("reserved ports of no service: %v", s.checks.ports())
	}
}

// Each field of a slice that decides about a backend is noticed, and no other.
func TestWhichChangesOfASliceCount(t *testing.T) {
	make := func(change func(*discoveryv1.EndpointSlice)) *discoveryv1.EndpointSlice {
		slice := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Name: "web-1", Labels: map[string]string{
			discoveryv1.LabelServiceName: "web"}}, AddressType: discoveryv1.AddressTypeIPv4,
			Ports: []discoveryv1.EndpointPort{{Name: new("http"), Port: new(int32(8080)), Protocol: new(corev1.ProtocolTCP)}},
			Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"172.18.0.11"}, NodeName: new("n1")},
				{Addresses: []string{"10.244.2.5"}, NodeName: new("n2")}, {Addresses: []string{"10.244.3.5"}, NodeName: new("n3")}}}
		change(slice)
		return desired.StripSlice(slice, "n1")
	}
	before := make(func(*discoveryv1.EndpointSlice) {})
	for name, c := range map[string]struct {
		change func(*discoveryv1.EndpointSlice)
		counts bool
	}{
		"nothing":                           {func(*discoveryv1.EndpointSlice) {}, false},
		"annotation":                        {func(s *discoveryv1.EndpointSlice) { s.Annotations = map[string]string{"a": "b"} }, false},
		"generation":                        {func(s *discoveryv1.EndpointSlice) { s.Generation, s.ResourceVersion = 9, "9" }, false},
		"zone":                              {func(s *discoveryv1.EndpointSlice) { s.Endpoints[1].Zone = new("z") }, false},
		"the node of an endpoint elsewhere": {func(s *discoveryv1.EndpointSlice) { s.Endpoints[1].NodeName = new("n4") }, false},
		"port":                              {func(s *discoveryv1.EndpointSlice) { s.Ports[0].Port = new(int32(9090)) }, true},
		"name of a port":                    {func(s *discoveryv1.EndpointSlice) { s.Ports[0].Name = new("web") }, true},
		"protocol":                          {func(s *discoveryv1.EndpointSlice) { s.Ports[0].Protocol = new(corev1.ProtocolUDP) }, true},
		"another port": {func(s *discoveryv1.EndpointSlice) {
			s.Ports = append(s.Ports, discoveryv1.EndpointPort{Port: new(int32(1))})
		}, true},
		"service":                {func(s *discoveryv1.EndpointSlice) { s.Labels[discoveryv1.LabelServiceName] = "shop" }, true},
		"family":                 {func(s *discoveryv1.EndpointSlice) { s.AddressType = discoveryv1.AddressTypeFQDN }, true},
		"address":                {func(s *discoveryv1.EndpointSlice) { s.Endpoints[0].Addresses[0] = "172.18.0.12" }, true},
		"address elsewhere":      {func(s *discoveryv1.EndpointSlice) { s.Endpoints[1].Addresses[0] = "10.244.2.6" }, true},
		"an endpoint moves away": {func(s *discoveryv1.EndpointSlice) { s.Endpoints[0].NodeName = new("n2") }, true},
		"not ready":              {func(s *discoveryv1.EndpointSlice) { s.Endpoints[1].Conditions.Ready = new(false) }, true},
		"terminating": {func(s *discoveryv1.EndpointSlice) {
			s.Endpoints[1].Conditions = discoveryv1.EndpointConditions{Ready: new(false), Terminating: new(true)}
		}, true},
		"hint": {func(s *discoveryv1.EndpointSlice) {
			s.Endpoints[1].Hints = &discoveryv1.EndpointHints{ForNodes: []discoveryv1.ForNode{{Name: "n1"}}}
		}, true},
	} {
		after := make(c.change)
		if counts := endpointsChanged(before, after); counts != c.counts {
			t.Errorf("%s: counts is %t", name, counts)
		}
	}
}
