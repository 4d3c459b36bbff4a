package gateway

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/weft-network/weft/pkg/agent/desired"
	"github.com/weft-network/weft/pkg/agent/hostnet"
	"github.com/weft-network/weft/pkg/agent/openflow"
	"github.com/weft-network/weft/pkg/agent/repairs"
	"github.com/weft-network/weft/pkg/ovn/names"
	"github.com/weft-network/weft/pkg/unit"
)

const (
	// remakeGap is the time between two attempts to have ovs-vswitchd make the same link again.
	remakeGap = time.Minute
	// releaseTimeout is how long ovs-vswitchd may take to remove a port, and releasePoll the time between two looks.
	releaseTimeout, releasePoll = 5 * time.Second, 20 * time.Millisecond
)

// ApplyHost gives a link of Weft's own its settings, addresses and routes. port is the unit with the link's port in Open vSwitch, whose
// interface has an OpenFlow port.
func (r *Gateway) ApplyHost(ctx context.Context, link string, port unit.Key, want desired.Host) error {
	wrote, err := hostnet.Apply(link, want)
	r.Repairs.Note(repairs.Object{Kind: repairs.Routes, Name: "link " + link + ", its addresses and routes"}, want, wrote, err)
	if errors.Is(err, hostnet.ErrNoLink) && openflow.Answers(r.outside.runDir, names.IntegrationBridge) {
		return r.remake(ctx, link, port, err)
	}
	return err
}

// remake removes the port of a link that another program deleted or renamed, because ovs-vswitchd does not make a link again. The
// removal enqueues a reconciliation, which adds the port. After its start, ovs-vswitchd makes the links before it answers for the bridge.
func (r *Gateway) remake(ctx context.Context, link string, port unit.Key, missing error) error {
	if time.Since(r.remade[link]) < remakeGap {
		return missing
	}
	if r.remade == nil {
		r.remade = map[string]time.Time{}
	}
	r.remade[link] = time.Now()
	if err := r.OVS.Apply(ctx, unit.Unit{Key: port}); err != nil {
		return err
	}
	if err := r.awaitRelease(ctx, link); err != nil {
		return fmt.Errorf("link %s: ovs-vswitchd has not removed its port: %w", link, err)
	}
	return fmt.Errorf("%w: another program deleted or renamed it, and ovs-vswitchd makes it again", missing)
}

// awaitRelease waits until ovs-vswitchd has removed a port. A port that is added before would be the former one to ovs-vswitchd.
func (r *Gateway) awaitRelease(ctx context.Context, port string) error {
	ctx, cancel := context.WithTimeout(ctx, releaseTimeout)
	defer cancel()
	tick := time.NewTicker(releasePoll)
	defer tick.Stop()
	for {
		has, err := openflow.HasPort(ctx, r.outside.runDir, names.IntegrationBridge, port)
		if err != nil || !has {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
