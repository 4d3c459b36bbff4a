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

// A slice is left to another implementation by its own labels, whatever the service's labels are.
func TestSlicesForOthersAreNotBalanced(t *testing.T) {
	service, port := claimant("web", 1, "10.96.0.1", []int32{80}), int32(8080)
	for label, want := range map[string]int{"": 1, corev1.IsHeadlessService: 0, names.ServiceProxyLabel: 0} {
		slice := discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Name: "web-1", Labels: map[string]string{label: ""}},
			AddressType: discoveryv1.AddressTypeIPv4,
			Ports:       []discoveryv1.EndpointPort{{Port: &port}}, Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"10.244.0.3"}}}}
		parsed, problems := facts.ParseService(&service, []discoveryv1.EndpointSlice{slice}, nil)
		if got := parsed.Ports[0].Backends; len(got) != want || len(problems) > 0 {
			t.Errorf("label %q: backends are %v, problems %v", label, got, problems)
		}
	}
}
