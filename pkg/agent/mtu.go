package agent

import (
	"errors"
	"net/netip"

	"github.com/weft-network/weft/pkg/agent/desired"
	"github.com/weft-network/weft/pkg/cni"
)

// resize gives the interfaces of running pods the node's MTU when it changed, and once after a start: what is larger than the tunnel carries
// is lost without a word. What cannot be changed now is tried again at the next look, and told by the check of interfaces.
func (r *nodeReconciler) resize(mtu int) error {
	if mtu == 0 || mtu == r.resized || !r.attachments.ready() {
		return nil
	}
	var failed error
	for _, have := range r.attachments.all() {
		failed = errors.Join(failed, cni.SetMTU(resized(have.Attachment, mtu)))
	}
	if failed == nil {
		r.resized = mtu
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
