package gateway

import (
	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/agent/toobig"
	"github.com/weft-network/weft/pkg/ovn/names"
)

// relayTooBig relays Packet Too Big messages to pods where the userspace datapath cannot: in Local mode from the
// management port, and in Shared mode from the bridge of the gateway router.
func (r *Gateway) relayTooBig(bridge externalBridge, found networkv1alpha1.NodeGatewayStatus) error {
	switch {
	case r.Datapath == networkv1alpha1.DatapathNetdev && found.Mode == networkv1alpha1.GatewayLocal:
		return r.TooBig.FollowLink(r.Running, names.ManagementInterface)
	case r.Datapath == networkv1alpha1.DatapathNetdev && bridge.physical != 0 && bridge.patch != 0:
		return r.TooBig.Follow(r.Running, toobig.Bridge{Name: bridge.name, Patch: bridge.patch, MAC: string(found.MACAddress)})
	}
	r.TooBig.Stop()
	return nil
}
