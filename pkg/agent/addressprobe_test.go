package agent_test

import (
	"fmt"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

// The agent reports who has an address on the gateway's segment, and reports when that host is gone. A restart writes nothing.
func TestAddressesAreProbed(t *testing.T) {
	s := newSegmented(t)
	used := []string{"172.18.0.202/24", "fd00:18::202/64"}
	mac := networkv1alpha1.MACAddress(s.use(s.outside, outsideLink, true, used...).String())
	at := metav1.Unix(1_000_000, 0)
	all := []networkv1alpha1.IP{"172.18.0.202", "172.18.0.203", "192.0.2.7", "fd00:18::202", "fd00:18::203"}
	s.edit(func(spec *networkv1alpha1.NodeNetworkSpec) {
		for _, a := range all {
			spec.ProbeAddresses = append(spec.ProbeAddresses, networkv1alpha1.AddressProbe{Address: a, RequestedAt: at})
		}
	})
	await := func(what string, of202 networkv1alpha1.MACAddress) {
		t.Helper()
		want := []string{"172.18.0.202 " + string(of202), "172.18.0.203 ", "192.0.2.7 no link to the outside has a network with the address",
			"fd00:18::202 " + string(of202), "fd00:18::203 "}
		s.until(what, func() error {
			var have []string
			for _, r := range s.status().Probed {
				if !r.RequestedAt.Equal(&at) {
					return fmt.Errorf("%+v is the result of another request", r)
				}
				have = append(have, string(r.Address)+" "+string(r.MACAddress)+r.Error)
			}
			return isTrue(slices.Equal(have, want), fmt.Sprintf("%q", have))
		})
	}
	await("the host's MAC", mac)
	if !s.status().Gateway.ProbesAddresses {
		t.Error("the agent does not report that it can probe")
	}
	version := func() string {
		nn := &networkv1alpha1.NodeNetwork{}
		s.must(api.Get(t.Context(), types.NamespacedName{Name: nodeName}, nn))
		return nn.ResourceVersion
	}
	s.stopAgent()
	before := version()
	s.startAgent()
	s.until("STATUS", s.ready)
	await("the host's MAC after a restart", mac)
	if after := version(); after != before {
		t.Errorf("a restart wrote the NodeNetwork: %s, then %s", before, after)
	}
	s.use(s.outside, outsideLink, false, used...)
	await("that the host is gone", "")
	s.edit(func(spec *networkv1alpha1.NodeNetworkSpec) { spec.ProbeAddresses = nil })
	s.until("no result", func() error { return isTrue(len(s.status().Probed) == 0, fmt.Sprint(s.status().Probed)) })
}
