package facts

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/ipam"
)

func TestFormerSubnets(t *testing.T) {
	plan := Plan{Clusters: []ipam.Network{{CIDR: netip.MustParsePrefix("10.244.0.0/16"), HostPrefix: 24},
		{CIDR: netip.MustParsePrefix("fd00:10:244::/48"), HostPrefix: 64}, {CIDR: netip.MustParsePrefix("10.4.0.0/16"), HostPrefix: 26}},
		Floating: []netip.Prefix{netip.MustParsePrefix("10.244.9.64/26")}}
	others := []networkv1alpha1.NodeNetworkSpec{{PodSubnets: []networkv1alpha1.CIDR{"10.244.1.0/24", "fd00:10:244:1::/64"}}}
	for name, c := range map[string]struct {
		addresses map[string][]string
		want      map[string][]networkv1alpha1.CIDR
	}{
		"no pod": {},
		"both families, and a secondary network": {
			addresses: map[string][]string{"n": {"10.244.0.3", "fd00:10:244::3", "10.244.0.4", "fd00:10:244::4", "10.4.0.70"}},
			want:      map[string][]networkv1alpha1.CIDR{"n": {"10.244.0.0/24", "fd00:10:244::/64", "10.4.0.64/26"}}},
		"most pods decide": {
			addresses: map[string][]string{"n": {"10.244.3.3", "10.244.2.3", "10.244.2.4", "10.244.4.3"}},
			want:      map[string][]networkv1alpha1.CIDR{"n": {"10.244.2.0/24"}}},
		"the first of equal ones": {
			addresses: map[string][]string{"n": {"10.244.3.3", "10.244.2.3"}},
			want:      map[string][]networkv1alpha1.CIDR{"n": {"10.244.2.0/24"}}},
		"another node has it now": {
			addresses: map[string][]string{"n": {"10.244.1.3", "fd00:10:244:2::3"}},
			want:      map[string][]networkv1alpha1.CIDR{"n": {"fd00:10:244:2::/64"}}},
		"two nodes with one subnet": {
			addresses: map[string][]string{"m": {"10.244.2.3"}, "n": {"10.244.2.4"}},
			want:      map[string][]networkv1alpha1.CIDR{"m": {"10.244.2.0/24"}}},
		"outside the networks": {addresses: map[string][]string{"n": {"192.0.2.3", "fd00:20::3"}}},
		"no pod's address":     {addresses: map[string][]string{"n": {"10.244.2.1", "10.244.2.2"}}},
		"floating addresses":   {addresses: map[string][]string{"n": {"10.244.9.70"}}},
	} {
		addresses := map[string][]netip.Addr{}
		for node, list := range c.addresses {
			for _, a := range list {
				addresses[node] = append(addresses[node], netip.MustParseAddr(a))
			}
		}
		got, err := plan.FormerSubnets(addresses, others)
		if err != nil {
			t.Fatal(err)
		}
		if len(got) == 0 {
			got = nil
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	unreadable := []networkv1alpha1.NodeNetworkSpec{{PodSubnets: []networkv1alpha1.CIDR{"x"}}}
	if _, err := plan.FormerSubnets(map[string][]netip.Addr{"n": nil}, unreadable); err == nil {
		t.Error("an unreadable subnet is accepted")
	}
}
