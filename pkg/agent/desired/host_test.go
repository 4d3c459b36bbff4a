package desired_test

import (
	"net/netip"
	"strings"
	"testing"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/agent/desired"
)

func dualStackSpec() networkv1alpha1.NodeNetworkSpec {
	return networkv1alpha1.NodeNetworkSpec{
		NodeID:     1,
		PodSubnets: []networkv1alpha1.CIDR{"10.244.1.0/24", "fd00:10:244:1::/64"},
		Gateways:   []networkv1alpha1.IP{"10.244.1.1", "fd00:10:244:1::1"},
		ManagementPort: networkv1alpha1.ManagementPort{
			MACAddress: "0a:58:0a:f4:01:02",
			Addresses:  []networkv1alpha1.InterfaceAddress{"10.244.1.2/24", "fd00:10:244:1::2/64"},
		},
		ClusterSubnets: []networkv1alpha1.CIDR{"10.244.0.0/16", "fd00:10:244::/48"},
		ServiceSubnets: []networkv1alpha1.CIDR{"10.96.0.0/16", "fd00:10:96::/112"},
	}
}

func TestNewHost(t *testing.T) {
	got, err := desired.NewHost(dualStackSpec(), 1442)
	if err != nil {
		t.Fatal(err)
	}
	if got.MAC != "0a:58:0a:f4:01:02" || got.MTU != 1442 {
		t.Errorf("MAC %s, MTU %d", got.MAC, got.MTU)
	}
	wantText(t, "addresses", got.Addresses, "10.244.1.2/24 fd00:10:244:1::2/64")
	var routes []string
	for _, r := range got.Routes {
		routes = append(routes, r.Destination.String()+" via "+r.Gateway.String())
	}
	want := "10.244.0.0/16 via 10.244.1.1, fd00:10:244::/48 via fd00:10:244:1::1, " +
		"10.96.0.0/16 via 10.244.1.1, fd00:10:96::/112 via fd00:10:244:1::1"
	if text := strings.Join(routes, ", "); text != want {
		t.Errorf("routes are\n%s, want\n%s", text, want)
	}
}

// There are no routes to services of a family that the node does not have.
func TestNewHostOfOneFamily(t *testing.T) {
	spec := dualStackSpec()
	spec.Gateways, spec.ManagementPort.Addresses = spec.Gateways[:1], spec.ManagementPort.Addresses[:1]
	got, err := desired.NewHost(spec, 1442)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range got.Routes {
		if r.Destination.Addr().Is6() {
			t.Errorf("route %v", r)
		}
	}
	if len(got.Routes) != 2 || len(got.Addresses) != 1 {
		t.Errorf("%d routes, %d addresses", len(got.Routes), len(got.Addresses))
	}
}

func TestNewHostNamesTheField(t *testing.T) {
	for want, spoil := range map[string]func(*networkv1alpha1.NodeNetworkSpec){
		"spec.managementPort.addresses": func(s *networkv1alpha1.NodeNetworkSpec) { s.ManagementPort.Addresses[1] = "x" },
		"spec.gateways":                 func(s *networkv1alpha1.NodeNetworkSpec) { s.Gateways[0] = "x" },
		"route of the management port":  func(s *networkv1alpha1.NodeNetworkSpec) { s.ServiceSubnets[0] = "x" },
	} {
		spec := dualStackSpec()
		spoil(&spec)
		_, err := desired.NewHost(spec, 1442)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), `"x"`) {
			t.Errorf("error is %v, want one with %q", err, want)
		}
	}
}

// A new route must not divert the host's packets to its databases or the API server. Destinations with a longer route
// are not affected.
func TestRoutesSpareWhatTheHostNeeds(t *testing.T) {
	for _, test := range []struct {
		name, to, via string
		refused       bool
	}{
		{"elsewhere", "172.18.0.10", "0.0.0.0/0", false},
		{"in the network of pods, by the default route", "10.244.0.9", "0.0.0.0/0", true},
		{"over IPv6", "fd00:10:244::9", "::/0", true},
		{"in the network of pods, on the link", "10.244.0.9", "10.244.0.0/24", false},
		{"the API server's cluster IP", "10.96.0.1", "0.0.0.0/0", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			host, err := desired.NewHost(dualStackSpec(), 1442)
			if err != nil {
				t.Fatal(err)
			}
			paths := []desired.Path{{To: netip.MustParseAddr(test.to), Via: netip.MustParsePrefix(test.via)}}
			if err := host.Spares(dualStackSpec(), paths); err != nil != test.refused {
				t.Errorf("error %v, want one: %t", err, test.refused)
			}
		})
	}
}
