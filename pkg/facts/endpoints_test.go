package facts_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/ovn/names"
)

// Unbalanceable values that the API server accepts are left out and named. The rest works.
func TestWhatCannotBeReadIsNamed(t *testing.T) {
	service := claimant("web", 1, "10.96.0.1", []int32{80}, "nonsense")
	port := int32(8080)
	slices := []discoveryv1.EndpointSlice{
		{ObjectMeta: metav1.ObjectMeta{Name: "names"}, AddressType: discoveryv1.AddressTypeFQDN,
			Ports:     []discoveryv1.EndpointPort{{Port: &port}},
			Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"example.org"}}}},
		{ObjectMeta: metav1.ObjectMeta{Name: "broken"}, AddressType: discoveryv1.AddressTypeIPv4,
			Ports:     []discoveryv1.EndpointPort{{Port: &port}},
			Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"10.244.0.300"}}, {}, {Addresses: []string{"10.244.0.3"}}}},
		{ObjectMeta: metav1.ObjectMeta{Name: "portless"}, AddressType: discoveryv1.AddressTypeIPv4, Ports: []discoveryv1.EndpointPort{{}},
			Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"10.244.0.4"}}}},
	}
	parsed, problems := facts.ParseService(&service, slices, nil)
	for _, words := range [][]string{{"spec.externalIPs", "nonsense"}, {"EndpointSlice broken", "10.244.0.300"}} {
		for _, word := range words {
			if !strings.Contains(strings.Join(problems, "; "), word) {
				t.Errorf("%v does not name %s", problems, word)
			}
		}
	}
	if got := parsed.Ports[0].Backends; len(problems) != 2 || len(got) != 1 || got[0].String() != "10.244.0.3:8080" {
		t.Errorf("backends are %v, problems %v", got, problems)
	}
}

// A slice is left out by its own label, whatever the service's labels are.
func TestHeadlessSlicesAreNotBalanced(t *testing.T) {
	service, port := claimant("web", 1, "10.96.0.1", []int32{80}), int32(8080)
	for label, want := range map[string]int{"": 1, corev1.IsHeadlessService: 0, names.ServiceProxyLabel: 1} {
		slice := discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Name: "web-1", Labels: map[string]string{label: ""}},
			AddressType: discoveryv1.AddressTypeIPv4,
			Ports:       []discoveryv1.EndpointPort{{Port: &port}}, Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"10.244.0.3"}}}}
		parsed, problems := facts.ParseService(&service, []discoveryv1.EndpointSlice{slice}, nil)
		if got := parsed.Ports[0].Backends; len(got) != want || len(problems) > 0 {
			t.Errorf("label %q: backends are %v, problems %v", label, got, problems)
		}
	}
}

// An address in two entries belongs to the pod that does not terminate. Of two such entries, a ready one precedes.
func TestAnAddressThatIsListedTwice(t *testing.T) {
	yes, no, service, port := true, false, claimant("web", 1, "10.96.0.1", []int32{80}), int32(8080)
	ready, starts := discoveryv1.EndpointConditions{Ready: &yes}, discoveryv1.EndpointConditions{Ready: &no}
	ends := discoveryv1.EndpointConditions{Ready: &no, Serving: &yes, Terminating: &yes}
	published := discoveryv1.EndpointConditions{Ready: &yes, Serving: &yes, Terminating: &yes}
	for _, test := range []struct {
		entries [2]discoveryv1.EndpointConditions
		used    bool
		ready   int
	}{
		{[2]discoveryv1.EndpointConditions{ready, ends}, true, 1}, {[2]discoveryv1.EndpointConditions{starts, ends}, false, 0},
		{[2]discoveryv1.EndpointConditions{starts, published}, false, 0}, {[2]discoveryv1.EndpointConditions{ready, starts}, true, 1},
		{[2]discoveryv1.EndpointConditions{published, ends}, true, 1}, {[2]discoveryv1.EndpointConditions{ends, ends}, true, 0},
	} {
		for _, order := range [][2]int{{0, 1}, {1, 0}} {
			var slices []discoveryv1.EndpointSlice
			for _, i := range order {
				slices = append(slices, discoveryv1.EndpointSlice{AddressType: discoveryv1.AddressTypeIPv4,
					Ports: []discoveryv1.EndpointPort{{Port: &port}}, Endpoints: []discoveryv1.Endpoint{
						{Addresses: []string{"10.244.0.3"}, NodeName: new("n1"), Conditions: test.entries[i]}}})
			}
			parsed, _ := facts.ParseService(&service, slices, nil)
			if got := parsed.Ports[0].Backends; (len(got) == 1) != test.used {
				t.Errorf("%+v: backends are %v", test.entries, got)
			}
			if ipv4, ipv6 := facts.ReadyOn(slices, "n1"); ipv4 != test.ready || ipv6 != 0 {
				t.Errorf("%+v: %d and %d are ready", test.entries, ipv4, ipv6)
			}
		}
	}
}
