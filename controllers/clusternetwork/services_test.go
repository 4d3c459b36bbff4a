package clusternetwork

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/weft-network/weft/pkg/facts"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func serviceCIDR(name string, cidrs ...string) networkingv1.ServiceCIDR {
	return networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: networkingv1.ServiceCIDRSpec{CIDRs: cidrs}}
}

func TestServiceNetworksThatDiffer(t *testing.T) {
	going := serviceCIDR("going", "10.99.0.0/16")
	going.DeletionTimestamp = &metav1.Time{}
	v4, v6 := netip.MustParsePrefix("10.96.0.0/16"), netip.MustParsePrefix("fd00:10:96::/112")
	for name, c := range map[string]struct {
		spec  []netip.Prefix
		given []networkingv1.ServiceCIDR
		want  []string // words of the message; empty: no message
	}{
		"the same": {[]netip.Prefix{v4, v6},
			[]networkingv1.ServiceCIDR{serviceCIDR("kubernetes", "10.96.0.0/16", "fd00:10:96::/112")}, nil},
		"in two objects": {[]netip.Prefix{v4},
			[]networkingv1.ServiceCIDR{serviceCIDR("kubernetes", "10.96.0.0/24"), serviceCIDR("more", "10.96.1.0/24")}, nil},
		"the API server does not serve the kind": {[]netip.Prefix{v4}, nil, nil},
		"a network that is being deleted": {[]netip.Prefix{v4},
			[]networkingv1.ServiceCIDR{serviceCIDR("kubernetes", "10.96.0.0/16"), going}, nil},
		"a network that is not routed": {[]netip.Prefix{v4},
			[]networkingv1.ServiceCIDR{serviceCIDR("kubernetes", "10.96.0.0/16"), serviceCIDR("more", "10.97.0.0/24")},
			[]string{"more", "10.97.0.0/24"}},
		"a network that is larger": {[]netip.Prefix{v4},
			[]networkingv1.ServiceCIDR{serviceCIDR("kubernetes", "10.96.0.0/15")},
			[]string{"10.96.0.0/15", "no ServiceCIDR allocates addresses of 10.96.0.0/16"}},
		"a family without a network": {[]netip.Prefix{v4, v6},
			[]networkingv1.ServiceCIDR{serviceCIDR("kubernetes", "10.96.0.0/16")}, []string{"fd00:10:96::/112"}},
		"a family that is not routed": {[]netip.Prefix{v4},
			[]networkingv1.ServiceCIDR{serviceCIDR("kubernetes", "10.96.0.0/16", "fd00:10:96::/112")},
			[]string{"kubernetes", "fd00:10:96::/112"}},
		"an unreadable network": {[]netip.Prefix{v4},
			[]networkingv1.ServiceCIDR{serviceCIDR("kubernetes", "10.96.0.0/16", "nonsense")}, nil},
	} {
		got := serviceMismatch(facts.Plan{Services: c.spec}, c.given)
		if len(c.want) == 0 && got != "" {
			t.Errorf("%s: %s", name, got)
		}
		for _, word := range c.want {
			if !strings.Contains(got, word) {
				t.Errorf("%s: %q lacks %q", name, got, word)
			}
		}
	}
}
