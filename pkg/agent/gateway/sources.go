package gateway

import (
	"context"
	"errors"
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
	// Of the last reconciliation: Leaving, Carried, and the pods of this node. local is nil before the first.
	leaving desired.Leaving
	carried map[netip.Addr][]string
	local   map[netip.Addr]bool
	next    times           // of the lists; due is zero if none follows
	entries []desired.Entry // of the last list, not removed yet
}

// note takes the present state, and reports whether entries must be listed now.
func (s *sources) note(leaving desired.Leaving, carried map[netip.Addr][]string, local map[netip.Addr]bool, at time.Time) bool {
	if s.local == nil || !maps.EqualFunc(s.carried, carried, slices.Equal) || leaving.Changed(s.leaving, s.local) {
		s.next = times{due: at}
	}
	s.leaving, s.carried, s.local = leaving, carried, local
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

// endSources ends connections with a source that the pod does not have any more. It does nothing while the sets of pods are not read.
func (r *Gateway) endSources(ctx context.Context, spec networkv1alpha1.NodeNetworkSpec, status *networkv1alpha1.NodeGatewayStatus) error {
	if !r.Bindings.Connected() || r.outside.runDir == "" {
		return nil
	}
	owners, names, err := r.Services.owners(ctx)
	if err != nil {
		return err
	}
	now := desired.Sources{Pods: desired.Prefixes(spec.ClusterSubnets), Owners: owners, Own: r.addresses.Own, Inside: r.Bindings.Inside(),
		Here: r.translatesTo(), Links: linksOf(status)}
	carried := now.Carried(names)
	r.Bindings.FollowLeaving(leavingOf(carried, names))
	var read bool
	if now.Leaving, read = r.Bindings.Leaving(); !read {
		return nil
	}
	s := &r.outside.sources
	if s.note(now.Leaving, carried, r.Bindings.LocalPods(), time.Now()) {
		err := r.outside.endSources(ctx, r.datapath(), now, r.routerZones())
		if errors.Is(err, errAway) { // other parts say so, and no packet leaves meanwhile
			r.After(hostRetry)
			return nil
		}
		if err != nil {
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

// translatesTo returns the addresses to which the node's gateway router translates.
func (r *Gateway) translatesTo() []netip.Addr {
	return slices.Concat(slices.Collect(maps.Keys(r.outside.answered)), r.outside.carried, desired.Translated(r.outside.bindings))
}

// leavingOf returns the owners of carried addresses that are among names, sorted.
func leavingOf(carried map[netip.Addr][]string, names map[string]bool) (found []string) {
	for _, owners := range carried {
		for _, name := range owners {
			if names[name] {
				found = append(found, name)
			}
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}

// linksOf returns the networks of the host's links that lead outside.
func linksOf(status *networkv1alpha1.NodeGatewayStatus) (networks []netip.Prefix) {
	if status == nil {
		return nil
	}
	texts := slices.Clone(status.Addresses)
	for _, l := range status.FurtherLinks {
		texts = append(texts, l.Addresses...)
	}
	for _, text := range texts {
		if p, err := text.Prefix(); err == nil {
			networks = append(networks, p.Masked())
		}
	}
	return networks
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
