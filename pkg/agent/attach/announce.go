package attach

import (
	"slices"
	"time"

	"github.com/weft-network/weft/pkg/agent/desired"
	"github.com/weft-network/weft/pkg/agent/neighbour"
	"github.com/weft-network/weft/pkg/cni"
)

// announce sends the segment the pod's floating IPv6 addresses, so that it does not send to a previous MAC.
// ovn-controller announces IPv4 addresses only (25.03). The gateway announces addresses that it translates.
func (a *adding) announce(want cni.PodInterface, vif desired.VIF) error {
	frames, err := announcements(vif)
	if err != nil || len(frames) == 0 {
		return err
	}
	if err := cni.Send(want, frames); err != nil {
		return err
	}
	go a.repeat(a.port, want, vif, frames)
	return nil
}

func announcements(vif desired.VIF) (frames [][]byte, err error) {
	for _, address := range vif.Floating {
		if !address.Is6() || !slices.Contains(vif.Addresses, address) {
			continue
		}
		frame, err := neighbour.Advertisement(address, vif.MAC, neighbour.Host)
		if err != nil {
			return nil, err
		}
		frames = append(frames, frame)
	}
	return frames, nil
}

// repeat sends announcements again after each of neighbour.Gaps, until the interface has gone or the agent ends.
func (h *Handler) repeat(port string, from cni.PodInterface, vif desired.VIF, frames [][]byte) {
	for _, gap := range neighbour.Gaps {
		select {
		case <-h.Running.Done():
			return
		case <-time.After(gap):
		}
		has, ok := h.Attachments.Get(port)
		same := ok && has.ContainerID == from.ContainerID && has.IfName == from.IfName && slices.Equal(has.Addresses, vif.Addresses)
		if !same || cni.Send(from, frames) != nil { // without its namespace the pod ends
			return
		}
	}
}
