package gateway

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/weft-network/weft/pkg/agent/desired"
	"github.com/weft-network/weft/pkg/agent/neighbour"
	"github.com/weft-network/weft/pkg/agent/openflow"
	"github.com/weft-network/weft/pkg/ovn/sbdb"
)

// announceTimeout limits how long Open vSwitch may take to send announcements.
const announceTimeout = 5 * time.Second

// announce sends the segment the MAC of the translated IPv6 addresses that have come to this node, so that it does not
// send to the node where they were. ovn-controller announces IPv4 addresses only (25.03). An address is announced once
// for each pod, when the pod has its interface, and again by each agent that starts.
func (r *Gateway) announce(ctx context.Context, bridge externalBridge, mac string) error {
	present := map[netip.Addr]string{} // address -> UUID of the binding
	if bridge.physical != 0 && bridge.patch != 0 {
		for _, binding := range r.attached(r.outside.bindings) {
			for _, address := range desired.Translated([]*sbdb.PortBinding{binding}) {
				if address.Is6() {
					present[address] = binding.UUID
				}
			}
		}
	}
	var fresh []netip.Addr
	for address, binding := range present {
		if r.outside.announced[address] != binding {
			fresh = append(fresh, address)
		}
	}
	if len(fresh) > 0 {
		if err := r.sendAdvertisements(ctx, bridge, mac, fresh); err != nil {
			return fmt.Errorf("bridge %s: announce %v: %w", bridge.name, fresh, err)
		}
	}
	r.outside.announced = present
	return nil
}

func (r *Gateway) sendAdvertisements(ctx context.Context, bridge externalBridge, text string, addresses []netip.Addr) error {
	mac, err := net.ParseMAC(text)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, announceTimeout)
	defer cancel()
	packets, err := openflow.DialPackets(ctx, r.outside.runDir, bridge.name)
	if err != nil {
		return err
	}
	defer packets.Close()
	for _, address := range addresses {
		frame, err := neighbour.Advertisement(address, mac, neighbour.Router)
		if err != nil {
			return err
		}
		if err := packets.Send(frame, openflow.Output(bridge.physical)); err != nil {
			return err
		}
	}
	return packets.Flush(ctx)
}
