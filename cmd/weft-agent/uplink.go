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
	"github.com/weft-network/weft/pkg/options"
)

// newMover returns what moves links of this host. This program is its own guard.
func newMover(openVSwitch string, o options.Uplink) *uplink.Mover {
	return uplink.New(uplink.Config{
		Dir: o.StateDir, OpenVSwitch: openVSwitch, Datapath: agent.Datapath(), HostRun: o.HostRun, Log: ctrl.Log.WithName("uplink"),
		GuardCommand: []string{"/proc/self/exe", "uplink-guard", "--ovs=" + openVSwitch, "--state-dir=" + o.StateDir},
	})
}

// recoverUplink is an agent's first act: without it a node whose link is half moved may reach neither its API server nor anybody else.
func recoverUplink(ctx context.Context, mover *uplink.Mover) {
	if err := mover.Recover(ctx); err != nil {
		ctrl.Log.Error(err, "a link of this host is not at rest; it is looked at again")
	}
}

// apiServer is where this process finds the API server, unless that is a name.
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

// guard waits for the end of a move, and undoes it where nobody else does.
func guard(args []string) error {
	o, err := options.ParseUplinkGuard(args)
	if err != nil {
		return err
	}
	return newMover(o.OpenVSwitch, o.Uplink).Guard(ctrl.SetupSignalHandler(), o.Link, o.Attempt, o.Timeout, os.Stdin)
}

// uplinkCommand is for the host's administrator.
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
		fmt.Printf("%s onto %s: %s since %s %s\n", l.Snapshot.Link, l.Target.Bridge, l.Phase, l.Started.Format("2006-01-02 15:04:05 MST"), l.Reason)
	}
	return err
}
