package gateway

import (
	"net/netip"
	"strings"
	"testing"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

func TestWhereAnExternalRouteExcludesBFD(t *testing.T) {
	router, other := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")
	for _, c := range []struct {
		known   bool
		watched netip.Addr
		refused bool
		why     string
	}{{false, other, true, ""}, {true, other, false, ""}, {true, router, true, "an ExternalRoute watches the router"}} {
		refused, why := refusesBFD(c.known, []netip.Addr{c.watched}, router)
		if refused != c.refused || !strings.HasPrefix(why, c.why) || (why == "") != (c.why == "") {
			t.Errorf("%+v: %t %q", c, refused, why)
		}
	}
	for _, c := range []struct {
		gateway networkv1alpha1.NodeGateway
		refused bool
	}{
		{networkv1alpha1.NodeGateway{Mode: networkv1alpha1.GatewayLocal}, false},
		{networkv1alpha1.NodeGateway{Mode: networkv1alpha1.GatewayShared, Uplink: networkv1alpha1.UplinkInterface}, false},
		{networkv1alpha1.NodeGateway{Mode: networkv1alpha1.GatewayShared}, true},
	} {
		g := &Gateway{outside: newOutside("")} // which has read nothing yet
		if have, _ := g.RefusesBFD(networkv1alpha1.NodeNetworkSpec{Gateway: c.gateway}, router); have != c.refused {
			t.Errorf("%+v: %t", c.gateway, have)
		}
	}
}
