package attach

import (
	"cmp"
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

// Repair brings the host's end of a running pod's interface up and restores its MTU, if another program changed them. mtu is the MTU of
// interfaces on the cluster network, in bytes; 0: unknown. Other links, such as the link of an ADD under way, stay as they are.
func (a *Attachments) Repair(link cni.HostLink, mtu int) error {
	a.mu.Lock()
	have, ok := a.byID[a.find(link.ContainerID, link.IfName)]
	a.mu.Unlock()
	if !ok {
		return nil
	}
	if err := cni.Raise(have.ContainerID, have.IfName); err != nil {
		return err
	}
	if mtu = cmp.Or(have.MTU, mtu); mtu == 0 {
		return nil
	}
	return cni.SetMTU(resized(have.Attachment, mtu))
}

func resized(a desired.Attachment, mtu int) cni.PodInterface {
	want := cni.PodInterface{ContainerID: a.ContainerID, NetNS: a.NetNS, IfName: a.IfName, MTU: mtu}
	for _, address := range a.Addresses {
		want.Addresses = append(want.Addresses, netip.PrefixFrom(address, address.BitLen()))
	}
	return want
}
