package gateway

import (
	"context"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/weft-network/weft/pkg/agent/desired"
	"github.com/weft-network/weft/pkg/agent/hostnet"
	"github.com/weft-network/weft/pkg/agent/neighbour"
	"github.com/weft-network/weft/pkg/ovn/vswitchdb"
	"github.com/weft-network/weft/pkg/ovndb"
)

// endAnswers makes the host answer no longer for addresses that are not in want, and records want. The record has an answer from
// before it begins until after it has ended.
func (r *Gateway) endAnswers(ctx context.Context, want desired.Answers) error {
	ovs, ok := ovndb.Only[vswitchdb.OpenvSwitch](r.OVS.Conn)
	if !ok {
		return nil // Open vSwitch does not answer; the node is reconciled again when it does
	}
	if err := r.answer(nil, desired.ParseAnswers(ovs.ExternalIDs).Without(want)); err != nil {
		return err
	}
	return r.OVS.Apply(ctx, desired.Answering(want))
}

// answer makes the host answer for addresses, and no longer for former ones.
func (r *Gateway) answer(want, former desired.Answers) error {
	var links []string
	for _, link := range slices.Concat(slices.Collect(maps.Values(want)), slices.Collect(maps.Values(former))) {
		if !slices.Contains(links, link) {
			links = append(links, link)
		}
	}
	for _, link := range links {
		if err := hostnet.Answer(link, want.On(link), former.On(link)); err != nil {
			return err
		}
	}
	return nil
}

// announceFromHost sends each address' segment the host's MAC there for the egress IPs that came to this node, as announce does in
// Shared mode.
func (r *Gateway) announceFromHost(links []desired.Link, on desired.Answers) error {
	next := map[netip.Addr]announced{}
	for address, link := range on {
		next[address] = r.outside.announced[address].on(link)
	}
	due, again := announceDue(next, time.Now())
	for _, address := range due {
		at := slices.IndexFunc(links, func(l desired.Link) bool { return l.Name == on[address] })
		if at < 0 {
			continue
		}
		mac, err := net.ParseMAC(links[at].MAC)
		if err != nil {
			return fmt.Errorf("link %s: %w", links[at].Name, err)
		}
		frame, err := neighbour.Announcement(address, mac, neighbour.Router)
		if err != nil {
			return err
		}
		if err := neighbour.Send(links[at].Name, frame); err != nil {
			return fmt.Errorf("announce %s: %w", address, err)
		}
	}
	r.outside.announced = next
	if again > 0 {
		r.After(again)
	}
	return nil
}
