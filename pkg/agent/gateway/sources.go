package gateway

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/agent/desired"
	"github.com/weft-network/weft/pkg/ovn/names"
	"github.com/weft-network/weft/pkg/ovn/unixctl"
	"github.com/weft-network/weft/pkg/ovn/vswitchdb"
	"github.com/weft-network/weft/pkg/ovndb"
)

// sources ends connections of pods whose source is not theirs any more. The gateway router's conntrack would go on to translate a
// connection as it began. The entries are listed several times after a change, because ovn-controller changes the flows meanwhile.
type sources struct {
	pods    map[netip.Addr]string   // desired.Sources.Pods of the last reconciliation; nil: none yet
	carried map[netip.Addr][]string // desired.Sources.Carried of the last reconciliation
	next    times                   // of the lists; due is zero if none follows
	entries []desired.Entry         // of the last list, not removed yet
}

// note takes the present state, and reports whether entries must be listed now.
func (s *sources) note(now desired.Sources, at time.Time) bool {
	carried, first := now.Carried(), s.pods == nil
	moved := func(p netip.Addr) bool {
		before, known := s.pods[p]
		return known && before != now.Pods[p]
	}
	if first || !maps.EqualFunc(s.carried, carried, slices.Equal) || slices.ContainsFunc(slices.Collect(maps.Keys(now.Pods)), moved) {
		s.next = times{due: at}
	}
	s.pods, s.carried = now.Pods, carried
	return len(s.entries) > 0 || !s.next.due.IsZero() && !at.Before(s.next.due)
}

// listed counts a list.
func (s *sources) listed(at time.Time) {
	gaps := staleGaps()
	if s.next.count < len(gaps) {
		s.next = times{s.next.count + 1, at.Add(gaps[s.next.count])}
	} else {
		s.next = times{}
	}
}

// endSources ends connections with a source that the pod does not have any more.
func (r *Gateway) endSources(ctx context.Context, status *networkv1alpha1.NodeGatewayStatus) error {
	if !r.Bindings.Connected() || r.outside.runDir == "" {
		return nil
	}
	now, err := r.readSources(ctx, status)
	if err != nil {
		return err
	}
	s := &r.outside.sources
	if s.note(now, time.Now()) {
		if err := r.outside.endSources(ctx, r.datapath(), now, r.routerZones()); err != nil {
			return fmt.Errorf("connections of pods may keep a source that is not theirs any more: %w", err)
		}
	}
	switch {
	case len(s.entries) > 0:
		r.After(time.Millisecond)
	case !s.next.due.IsZero():
		r.After(max(time.Millisecond, time.Until(s.next.due)))
	}
	return nil
}

// endSources lists the entries of the zones, unless some of the last list remain, and removes what the sources refuse.
func (o *outside) endSources(ctx context.Context, datapath string, now desired.Sources, zones []string) error {
	return o.onSwitch(ctx, func(ctx context.Context, conn *unixctl.Conn) (err error) {
		s := &o.sources
		if len(s.entries) == 0 {
			for _, zone := range zones {
				list, err := conn.Call(ctx, dumpCommand, datapath, "zone="+zone)
				if err != nil {
					return fmt.Errorf("list conntrack entries: %w", err)
				}
				for e := range desired.Listed(list) {
					if now.Refuses(e) {
						s.entries = append(s.entries, e)
					}
				}
			}
			s.listed(time.Now())
		}
		s.entries, err = removeSome(ctx, conn, datapath, s.entries)
		return err
	})
}

// readSources reads whose addresses the sources of packets are.
func (r *Gateway) readSources(ctx context.Context, status *networkv1alpha1.NodeGatewayStatus) (desired.Sources, error) {
	owners, err := r.Services.owners(ctx)
	s := desired.Sources{Pods: r.Bindings.Leaving(), Owners: owners, Own: r.addresses.Own, Inside: r.Bindings.Inside(),
		Here: slices.Concat(slices.Collect(maps.Keys(r.outside.answered)), r.outside.carried)}
	if status != nil {
		links := slices.Clone(status.Addresses)
		for _, l := range status.FurtherLinks {
			links = append(links, l.Addresses...)
		}
		for _, text := range links {
			if p, err := text.Prefix(); err == nil {
				s.Links = append(s.Links, p.Masked())
			}
		}
	}
	return s, err
}

// routerZones returns the conntrack zones in which the node's gateway routers translate sources. ovn-controller chooses them.
func (r *Gateway) routerZones() (zones []string) {
	for _, bridge := range ovndb.Shared(r.OVS.Conn, func(b *vswitchdb.Bridge) bool { return b.Name == names.IntegrationBridge }) {
		for _, router := range []string{names.GatewayRouter(r.Node), names.EgressRouter(r.Node)} {
			if zone := bridge.ExternalIDs["ct-zone-"+router+"_snat"]; zone != "" {
				zones = append(zones, zone)
			}
		}
	}
	return zones
}
