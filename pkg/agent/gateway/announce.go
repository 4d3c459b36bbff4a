package gateway

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/weft-network/weft/pkg/agent/desired"
	"github.com/weft-network/weft/pkg/agent/neighbour"
	"github.com/weft-network/weft/pkg/agent/openflow"
	"github.com/weft-network/weft/pkg/ovn/sbdb"
)

// announceTimeout limits how long Open vSwitch may take to send announcements.
const announceTimeout = 5 * time.Second

// announced says how an address was announced. The zero value means not at all.
type announced struct {
	binding string    // UUID of the binding of the pod, or of the gateway router's port
	times   int       // at most 1 + len(neighbour.Gaps)
	due     time.Time // the time of the next announcement
}

// announce sends the segment the MAC of the addresses that have come to this node: translated addresses of pods, egress IPs
// and addresses of load balancers. Otherwise the segment would send to the node where they were. ovn-controller announces
// IPv4 addresses only (25.03), and a pod's only before the pod has its interface, when the bridge drops its announcements.
// An address is announced when its pod has its interface or the gateway router answers for it, and when an agent starts, each
// time with the repetitions of neighbour.Gaps. own are the node's addresses.
func (r *Gateway) announce(ctx context.Context, bridge externalBridge, mac string, own []netip.Addr) error {
	next := map[netip.Addr]announced{}
	if bridge.physical != 0 && bridge.patch != 0 {
		for _, binding := range r.attached(r.outside.bindings) {
			for _, address := range desired.Translated([]*sbdb.PortBinding{binding}) {
				next[address] = r.outside.announced[address].on(binding.UUID)
			}
		}
		ofPods := desired.Translated(r.outside.bindings)
		for address, binding := range r.outside.answered {
			if !slices.Contains(ofPods, address) && !slices.Contains(own, address) {
				next[address] = r.outside.announced[address].on(binding)
			}
		}
	}
	due, again := announceDue(next, time.Now())
	if len(due) > 0 {
		if err := r.sendAnnouncements(ctx, bridge, mac, due); err != nil {
			return fmt.Errorf("bridge %s: announce %v: %w", bridge.name, due, err)
		}
	}
	r.outside.announced = next
	if again > 0 {
		r.After(again)
	}
	return nil
}

// announceDue counts an announcement of each address that is due, and returns these addresses and the time until the next
// is due; 0: none.
func announceDue(states map[netip.Addr]announced, now time.Time) (due []netip.Addr, again time.Duration) {
	for address, state := range states {
		if state.times > len(neighbour.Gaps) {
			continue
		}
		if !now.Before(state.due) {
			due = append(due, address)
			state = state.sent(now)
			states[address] = state
		}
		if wait := state.due.Sub(now); wait > 0 && (again == 0 || wait < again) {
			again = wait
		}
	}
	return due, again
}

// on returns the state for a binding: nothing is announced yet if it is another than before.
func (a announced) on(binding string) announced {
	if a.binding == binding {
		return a
	}
	return announced{binding: binding}
}

// sent returns the state after an announcement.
func (a announced) sent(now time.Time) announced {
	if a.times < len(neighbour.Gaps) {
		a.due = now.Add(neighbour.Gaps[a.times])
	}
	a.times++
	return a
}

func (r *Gateway) sendAnnouncements(ctx context.Context, bridge externalBridge, text string, addresses []netip.Addr) error {
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
		frame, err := neighbour.Announcement(address, mac, neighbour.Router)
		if err != nil {
			return err
		}
		if err := packets.Send(frame, openflow.Output(bridge.physical)); err != nil {
			return err
		}
	}
	return packets.Flush(ctx)
}
