package desired_test

import (
	"net/netip"
	"testing"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/agent/desired"
)

func TestWhatTheHostForwards(t *testing.T) {
	dual := []netip.Prefix{netip.MustParsePrefix("10.244.0.0/16"), netip.MustParsePrefix("fd00:10:244::/48")}
	const local, shared = networkv1alpha1.GatewayLocal, networkv1alpha1.GatewayShared
	mp0, both := []string{"ovn-k8s-mp0"}, []string{"ovn-k8s-mp0", "weft-egress0"}
	for name, c := range map[string]struct {
		rules desired.HostRules
		want  desired.Forwarding
	}{
		"Local":                  {desired.HostRules{Mode: local, Pods: dual}, desired.Forwarding{Links: mp0, IPv4: true, IPv6: true}},
		"Local, IPv4":            {desired.HostRules{Mode: local, Pods: dual[:1]}, desired.Forwarding{Links: mp0, IPv4: true}},
		"Local, IPv6":            {desired.HostRules{Mode: local, Pods: dual[1:]}, desired.Forwarding{Links: mp0, IPv6: true}},
		"Local, with egress IPs": {desired.HostRules{Mode: local, Egress: true, Pods: dual[:1]}, desired.Forwarding{Links: both, IPv4: true}},
		"Shared":                 {desired.HostRules{Mode: shared, Pods: dual}, desired.Forwarding{}},
		"apart":                  {desired.HostRules{Mode: shared, Forwards: true, Pods: dual[:1]}, desired.Forwarding{Links: mp0, IPv4: true}},
	} {
		if got := c.rules.Forwarding(); !got.Equal(c.want) {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}
