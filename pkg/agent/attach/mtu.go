package attach

import (
	"errors"
	"net/netip"

	"github.com/weft-network/weft/pkg/agent/desired"
	"github.com/weft-network/weft/pkg/cni"
)

// Resize sets the MTU of the interfaces of running pods, because a packet that is too large for the tunnel is lost
// silently. The error names the interfaces that cannot be changed now. The self check reports them again.
func (a *Attachments) Resize(mtu int) (failed error) {
	for _, have := range a.All() {
		if have.MTU != 0 {
			continue // its network has an MTU of its own
		}
		failed = errors.Join(failed, cni.SetMTU(resized(have.Attachment, mtu)))
	}
	return failed
}

func resized(a desired.Attachment, mtu int) cni.PodInterface {
	want := cni.PodInterface{ContainerID: a.ContainerID, NetNS: a.NetNS, IfName: a.IfName, MTU: mtu}
	for _, address := range a.Addresses {
		want.Addresses = append(want.Addresses, netip.PrefixFrom(address, address.BitLen()))
	}
	return want
}
