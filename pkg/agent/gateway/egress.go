package gateway

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/agent/desired"
	"github.com/weft-network/weft/pkg/agent/hostnet"
	"github.com/weft-network/weft/pkg/agent/repairs"
	"github.com/weft-network/weft/pkg/ovn/names"
	"github.com/weft-network/weft/pkg/ovn/vswitchdb"
	"github.com/weft-network/weft/pkg/ovndb"
	"github.com/weft-network/weft/pkg/unit"
)

// applyEgress makes the host's port to the node's gateway router of Local mode, and routes to the addresses in answers through it. The
// kernel answers only for addresses that it routes to another link, so the port exists also without a router. waits says what is
// not there yet.
func (r *Gateway) applyEgress(ctx context.Context, spec networkv1alpha1.NodeNetworkSpec, link desired.Link,
	answers desired.Answers) (waits, err error) {
	if !r.outside.leadsThroughPort() {
		return nil, r.removeEgress(ctx)
	}
	r.outside.leadsToHost.Store(true)
	bridge, ok := ovndb.Find(r.OVS.Conn, &vswitchdb.Bridge{Name: names.IntegrationBridge})
	if !ok {
		return fmt.Errorf("bridge %s is not there", names.IntegrationBridge), nil
	}
	if err := r.OVS.Apply(ctx, desired.EgressPort(r.Node, int(spec.MTU), bridge.UUID)); err != nil {
		return nil, err
	}
	row, ok := ovndb.Find(r.OVS.Conn, &vswitchdb.Interface{Name: names.EgressInterface})
	if !ok || row.Ofport == nil || *row.Ofport < 0 {
		return fmt.Errorf("ovs-vswitchd has not made %s yet", names.EgressInterface), nil
	}
	pods := families(spec)
	host := desired.EgressHost(answers.All(), pods.IPv4, pods.IPv6)
	host.MTU, host.MAC = int(spec.MTU), desired.EgressMAC()
	if err := r.ApplyHost(ctx, names.EgressInterface, desired.EgressKey(), host); err != nil {
		return nil, err
	}
	leaves := maps.Clone(answers) // not by the link outside, which the main table chooses
	maps.DeleteFunc(leaves, func(address netip.Addr, by string) bool {
		return by == link.Name || !slices.Contains(r.outside.carried, address)
	})
	return nil, r.routeSources(leaves)
}

// routeSources leads the packets with these sources by their links.
func (r *Gateway) routeSources(leaves desired.Answers) error {
	done, err := hostnet.RouteSources(leaves)
	r.Repairs.Note(repairs.Object{Kind: repairs.Routes, Name: "the routes of tables from 840000"}, done.Routes, done.WroteRoutes, err)
	r.Repairs.Note(repairs.Object{Kind: repairs.Rules, Name: "the rules of priority 8400"}, leaves.String(), done.WroteRules, err)
	return err
}

// removeEgress removes the port and the host's routes of Local mode.
func (r *Gateway) removeEgress(ctx context.Context) error {
	r.outside.leadsToHost.Store(false)
	if _, ok := ovndb.Find(r.OVS.Conn, &vswitchdb.Interface{Name: names.EgressInterface}); !ok {
		return nil
	}
	if err := r.routeSources(nil); err != nil {
		return err
	}
	return r.OVS.Apply(ctx, unit.Unit{Key: desired.EgressKey()})
}
