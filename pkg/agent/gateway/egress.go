package gateway

import (
	"context"
	"fmt"
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
// router carries, and the answers of the link outside for them. waits says what is not there yet.
func (r *Gateway) applyEgress(ctx context.Context, spec networkv1alpha1.NodeNetworkSpec, link desired.Link) (waits, err error) {
	if !r.outside.egress {
		return nil, r.removeEgress(ctx)
	}
	r.outside.leadsToHost.Store(true)
	bridge, ok := ovndb.Find(r.OVS.Conn, &vswitchdb.Bridge{Name: names.IntegrationBridge})
	if !ok {
		return fmt.Errorf("bridge %s is not there", names.IntegrationBridge), nil
	}
	want := desired.Answers{Link: link.Name, Addresses: r.outside.carried}
	former := r.answers()
	// The record comes before the answers, and names the former ones until they are gone.
	both := want
	if former.Link == want.Link {
		both.Addresses = union(want.Addresses, former.Addresses)
	} else if err := hostnet.Answer(former.Link, nil, former.Addresses); err != nil {
		return nil, err
	}
	if err := r.OVS.Apply(ctx, desired.EgressPort(r.Node, int(spec.MTU), bridge.UUID, both)); err != nil {
		return nil, err
	}
	row, ok := ovndb.Find(r.OVS.Conn, &vswitchdb.Interface{Name: names.EgressInterface})
	if !ok || row.Ofport == nil || *row.Ofport < 0 {
		return fmt.Errorf("ovs-vswitchd has not made %s yet", names.EgressInterface), nil
	}
	pods := families(spec)
	if err := hostnet.Apply(names.EgressInterface, desired.EgressHost(want.Addresses, pods.IPv4, pods.IPv6)); err != nil {
		return nil, err
	}
	if err := hostnet.Answer(link.Name, want.Addresses, former.Addresses); err != nil {
		return nil, err
	}
	if err := r.OVS.Apply(ctx, desired.EgressPort(r.Node, int(spec.MTU), bridge.UUID, want)); err != nil {
		return nil, err
	}
	return nil, r.announceFromHost(link)
}

// removeEgress removes the port, and the answers that were recorded with it.
func (r *Gateway) removeEgress(ctx context.Context) error {
	r.outside.leadsToHost.Store(false)
	if _, ok := ovndb.Find(r.OVS.Conn, &vswitchdb.Interface{Name: names.EgressInterface}); !ok {
		return nil
	}
	former := r.answers()
	if err := hostnet.Answer(former.Link, nil, former.Addresses); err != nil {
		return err
	}
	return r.OVS.Apply(ctx, unit.Unit{Key: desired.EgressKey()})
}

// answers returns what is recorded with the port.
func (r *Gateway) answers() desired.Answers {
	row, ok := ovndb.Find(r.OVS.Conn, &vswitchdb.Interface{Name: names.EgressInterface})
	if !ok {
		return desired.Answers{}
	}
	return desired.ParseAnswers(row.ExternalIDs)
}

func union(a, b []netip.Addr) []netip.Addr {
	all := slices.Concat(a, b)
	slices.SortFunc(all, netip.Addr.Compare)
	return slices.Compact(all)
}

// announceFromHost sends the segment the host's MAC for the egress IPs that came to this node, as announce does in Shared mode.
func (r *Gateway) announceFromHost(link desired.Link) error {
	next := map[netip.Addr]announced{}
	for _, address := range r.outside.carried {
		next[address] = r.outside.announced[address].on(names.EgressPort(r.Node))
	}
	due, again := announceDue(next, time.Now())
	mac, err := net.ParseMAC(link.MAC)
	if err != nil {
		return fmt.Errorf("link %s: %w", link.Name, err)
	}
	for _, address := range due {
		frame, err := neighbour.Announcement(address, mac, neighbour.Router)
		if err != nil {
			return err
		}
		if err := neighbour.Send(link.Name, frame); err != nil {
			return fmt.Errorf("announce %s: %w", address, err)
		}
	}
	r.outside.announced = next
	if again > 0 {
		r.After(again)
	}
	return nil
}
