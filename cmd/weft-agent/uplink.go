package main

import (
	"context"
	"fmt"
	"net/netip"
	"net/url"
	"os"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/weft-network/weft/pkg/agent"
	"github.com/weft-network/weft/pkg/agent/uplink"
	"github.com/weft-network/weft/pkg/process/options"
)

// newMover returns the Mover of this host's links. Its guard process runs this executable.
func newMover(openVSwitch string, o options.Uplink) *uplink.Mover {
	return uplink.New(uplink.Config{
		Dir: o.StateDir, OpenVSwitch: openVSwitch, Datapath: agent.Datapath(), HostRun: o.HostRun, Log: ctrl.Log.WithName("uplink"),
		GuardCommand: []string{"/proc/self/exe", "uplink-guard", "--ovs=" + openVSwitch, "--state-dir=" + o.StateDir},
	})
}

// recoverUplink runs before anything else in the agent. A node whose link is only half moved may reach neither its
// API server nor other hosts.
func recoverUplink(ctx context.Context, mover *uplink.Mover) {
	if err := mover.Recover(ctx); err != nil {
		ctrl.Log.Error(err, "cannot restore a link of this host to a stable state; retrying while the agent runs")
	}
}

// apiServer returns the address of the API server. It returns the zero AddrPort if this process reaches the API
// server by a host name.
func apiServer() netip.AddrPort {
	config, err := ctrl.GetConfig()
	if err != nil {
		return netip.AddrPort{}
	}
	parsed, err := url.Parse(config.Host)
	if err != nil {
		return netip.AddrPort{}
	}
	host, err := netip.ParseAddr(parsed.Hostname())
	if err != nil {
		return netip.AddrPort{}
	}
	var port uint16 = 443
	if parsed.Port() != "" {
		_, _ = fmt.Sscan(parsed.Port(), &port)
	}
	return netip.AddrPortFrom(host, port)
}

// guard waits until a move ends, and reverts the move if no other process does.
func guard(args []string) error {
	o, err := options.ParseUplinkGuard(args)
	if err != nil {
		return err
	}
	return newMover(o.OpenVSwitch, o.Uplink).Guard(ctrl.SetupSignalHandler(), o.Link, o.Attempt, o.Timeout, os.Stdin)
}

// uplinkCommand lets the host's administrator inspect, retry or release a moved link.
func uplinkCommand(args []string) error {
	o, err := options.ParseUplinkCommand(args)
	if err != nil {
		return err
	}
	ctx, mover := ctrl.SetupSignalHandler(), newMover(o.OpenVSwitch, o.Uplink)
	switch o.Verb {
	case "retry":
		return mover.Retry(ctx)
	case "release":
		return mover.Release(ctx)
	}
	ledgers, err := mover.Ledgers()
	for _, l := range ledgers {
		fmt.Printf("%s onto %s: %s since %s %s\n",
			l.Snapshot.Link, l.Target.Bridge, l.Phase, l.Started.Format("2006-01-02 15:04:05 MST"), l.Reason)
	}
	return err
}
