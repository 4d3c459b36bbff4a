package gateway

import (
	"net/netip"
	"slices"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/agent/desired"
)

// RefusesBFD reports whether the host must not run BFD on the link with a router, and why. why is empty until the southbound
// database was read. The gateway router of mode Shared has the host's address, and the bridge gives it the packets of the
// routers that it watches. To the router both are one system, with which it has one session (RFC 5881 §3).
func (r *Gateway) RefusesBFD(spec networkv1alpha1.NodeNetworkSpec, router netip.Addr) (refused bool, why string) {
	gateway := r.effective
	if gateway.Mode == "" {
		gateway = spec.Gateway
	}
	if gateway.Mode != networkv1alpha1.GatewayShared || isApart(gateway) {
		return false, ""
	}
	return refusesBFD(r.outside.hostPortsRead, desired.Watched(r.outside.bindings), router)
}

// refusesBFD is RefusesBFD for the routers that the gateway router watches, if these are known.
func refusesBFD(known bool, watched []netip.Addr, router netip.Addr) (refused bool, why string) {
	switch {
	case !known:
		return true, ""
	case slices.Contains(watched, router):
		return true, "an ExternalRoute watches the router from the same address: switch BFD off in the ExternalRoute or in the BGPPeer"
	}
	return false, ""
}
