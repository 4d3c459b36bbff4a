package gateway

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"time"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/agent/desired"
	"github.com/weft-network/weft/pkg/agent/hostnet"
	"github.com/weft-network/weft/pkg/agent/neighbour"
	"github.com/weft-network/weft/pkg/ovn/names"
	"github.com/weft-network/weft/pkg/ovn/vswitchdb"
	"github.com/weft-network/weft/pkg/ovndb"
	"github.com/weft-network/weft/pkg/unit"
)

// applyEgress connects the host with the node's gateway router of Local mode: the port, the routes to the egress IPs that the
// router carries, and the answers for them on the host's links. waits says what is not there yet.
func (r *Gateway) applyEgress(ctx context.Context, spec networkv1alpha1.NodeNetworkSpec, link desired.Link,
	further []desired.Link) (waits, err error) {
	if !r.outside.egress {
		return nil, r.removeEgress(ctx)
	}
	r.outside.leadsToHost.Store(true)
	bridge, ok := ovndb.Find(r.OVS.Conn, &vswitchdb.Bridge{Name: names.IntegrationBridge})
	if !ok {
		return fmt.Errorf("bridge %s is not there", names.IntegrationBridge), nil
	}
	links := append([]desired.Link{link}, further...)
	want, former := desired.LinksOf(r.outside.carried, links), r.answers()
	// The record has an answer from before it begins until after it has ended.
	if err := r.answer(nil, former.Without(want)); err != nil {
		return nil, err
	}
	if err := r.OVS.Apply(ctx, desired.EgressPort(r.Node, int(spec.MTU), bridge.UUID, want)); err != nil {
		return nil, err
	}
	row, ok := ovndb.Find(r.OVS.Conn, &vswitchdb.Interface{Name: names.EgressInterface})
	if !ok || row.Ofport == nil || *row.Ofport < 0 {
		return fmt.Errorf("ovs-vswitchd has not made %s yet", names.EgressInterface), nil
	}
	pods := families(spec)
	if err := hostnet.Apply(names.EgressInterface, desired.EgressHost(r.outside.carried, pods.IPv4, pods.IPv6)); err != nil {
		return nil, err
	}
	leaves := maps.Clone(want) // not by the link outside, which the main table chooses
	maps.DeleteFunc(leaves, func(_ netip.Addr, by string) bool { return by == link.Name })
	if err := hostnet.RouteSources(leaves); err != nil {
		return nil, err
	}
	if err := r.answer(want, nil); err != nil {
		return nil, err
	}
	var named []string
	for _, l := range further {
		named = append(named, l.Name)
	}
	r.outside.further.Store(named)
	return nil, r.announceFromHost(links, want)
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

// removeEgress removes the port, and the answers that were recorded with it.
func (r *Gateway) removeEgress(ctx context.Context) error {
	r.outside.leadsToHost.Store(false)
	r.outside.further.Store([]string(nil))
	if _, ok := ovndb.Find(r.OVS.Conn, &vswitchdb.Interface{Name: names.EgressInterface}); !ok {
		return nil
	}
	if err := errors.Join(r.answer(nil, r.answers()), hostnet.RouteSources(nil)); err != nil {
		return err
	}
	return r.OVS.Apply(ctx, unit.Unit{Key: desired.EgressKey()})
}

// answers returns what is recorded with the port.
func (r *Gateway) answers() desired.Answers {
	row, ok := ovndb.Find(r.OVS.Conn, &vswitchdb.Interface{Name: names.EgressInterface})
	if !ok {
		return nil
	}
	return desired.ParseAnswers(row.ExternalIDs)
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
