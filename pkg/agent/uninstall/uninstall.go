// Package uninstall removes everything of Weft from a node.
package uninstall

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"github.com/go-logr/logr"

	"github.com/weft-network/weft/pkg/agent/attach"
	"github.com/weft-network/weft/pkg/agent/cniconfig"
	"github.com/weft-network/weft/pkg/agent/desired"
	"github.com/weft-network/weft/pkg/agent/hostnet"
	"github.com/weft-network/weft/pkg/agent/ipsec"
	"github.com/weft-network/weft/pkg/agent/nftables"
	"github.com/weft-network/weft/pkg/agent/openflow"
	"github.com/weft-network/weft/pkg/agent/uplink"
	"github.com/weft-network/weft/pkg/cni"
	"github.com/weft-network/weft/pkg/cni/tombstone"
	"github.com/weft-network/weft/pkg/ovn/names"
	"github.com/weft-network/weft/pkg/ovn/vswitchdb"
	"github.com/weft-network/weft/pkg/ovndb"
	"github.com/weft-network/weft/pkg/ovndb/openvswitch"
	"github.com/weft-network/weft/pkg/unit"
)

// switchTimeout is the default of Node.SwitchTimeout.
const switchTimeout = 30 * time.Second

// Node describes what to remove from a node.
type Node struct {
	// OpenVSwitch is the OVSDB remote of the local database, and SwitchDir the run directory of ovs-vswitchd.
	OpenVSwitch, SwitchDir string
	// Socket, ConfDir and BinDir are the same as in the agent's Options.
	Socket, ConfDir, BinDir string
	// Mover restores links of the host from their bridges. Nil means that there are no such bridges.
	Mover *uplink.Mover
	// CutPods permits the removal of interfaces of running pods. Without it, Run refuses to start while there are any.
	CutPods bool
	// SwitchTimeout limits the wait for Open vSwitch. The default is 30 s.
	SwitchTimeout time.Duration
	Log           logr.Logger
}

// Run removes everything of Weft from the node. It removes the CNI configuration first, so that the runtime never calls
// a partly removed plugin. The plugin, the rows in Open vSwitch, links, routes, rules and the agent's files follow. Run
// changes nothing while an agent answers, because the agent would restore everything, or while pods have interfaces. It
// ignores what is already gone, so that it can be repeated after a failure.
func (u Node) Run(ctx context.Context) error {
	links, err := cni.List()
	if err != nil {
		return err
	}
	if err := u.mayBegin(ctx, links); err != nil {
		return err
	}
	config := &cniconfig.Config{ConfDir: u.ConfDir, BinDir: u.BinDir}
	for _, step := range []struct {
		what string
		do   func(context.Context) error
	}{
		{"CNI configuration and plugin", func(context.Context) error { return config.Remove() }},
		{"addresses and routes of " + names.ManagementInterface, func(context.Context) error {
			return hostnet.Clear(names.ManagementInterface)
		}},
		{"rules of nftables", func(ctx context.Context) error {
			return errors.Join((&nftables.Table{}).Remove(ctx), (&nftables.Table{Of: nftables.Tunnels}).Remove(ctx))
		}},
		{"rules in chain FORWARD of iptables", func(context.Context) error {
			_, err := (&nftables.Firewall{}).Apply(desired.Forwarding{})
			return err
		}},
		{"bridges of the host's links", u.releaseLinks},
		{"rows in Open vSwitch, flows of its bridges", u.clearSwitch},
		{"interfaces of pods", func(context.Context) error { return removeLinks(links) }},
		{"files in " + filepath.Dir(u.Socket), func(context.Context) error { return u.removeFiles() }},
	} {
		if err := step.do(ctx); err != nil {
			return fmt.Errorf("uninstall: %s: %w", step.what, err)
		}
		u.Log.Info("removed", "what", step.what)
	}
	return nil
}

// releaseLinks restores the host's links. It must run before the rows are removed, because a bridge loses the host's
// addresses together with its row.
func (u Node) releaseLinks(ctx context.Context) error {
	if u.Mover == nil {
		return nil
	}
	return u.Mover.Release(ctx)
}

// mayBegin returns an error while an agent runs, which would restore everything, and while pods would be disconnected.
func (u Node) mayBegin(ctx context.Context, links []cni.HostLink) error {
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", u.Socket)
	if err == nil {
		conn.Close()
		return fmt.Errorf("uninstall: an agent answers on %s: delete its DaemonSet first", u.Socket)
	}
	if len(links) > 0 && !u.CutPods {
		return fmt.Errorf("uninstall: %d interfaces of pods are left on this node: drain it, or say --cut-pods; nothing was changed",
			len(links))
	}
	return nil
}

// clearSwitch removes our rows and settings from Open vSwitch.
func (u Node) clearSwitch(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(u.SwitchTimeout, switchTimeout))
	defer cancel()
	engine := ovndb.NewEngine(ovndb.Config{Schema: openvswitch.Schema(), Endpoints: []string{u.OpenVSwitch}, Log: u.Log}, nil)
	running, stop := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = engine.Run(running) // without a fence, Run ends only with its context
	}()
	defer func() { stop(); <-ended }()
	connected := func() (bool, error) { return engine.Connected(), nil }
	if err := engine.Wait(ctx, connected); err != nil {
		return errors.Join(err, engine.Failure())
	}
	if ovs, ok := ovndb.Only[vswitchdb.OpenvSwitch](engine.Conn); ok {
		for address, link := range desired.ParseAnswers(ovs.ExternalIDs) {
			if err := hostnet.Answer(link, nil, []netip.Addr{address}); err != nil {
				return err
			}
		}
		_, err := hostnet.RouteSources(nil)
		if err := errors.Join(err, ipsec.ClearKernel()); err != nil {
			return err
		}
	}
	for _, unwanted := range unwantedUnits(engine) {
		if err := engine.Apply(ctx, unwanted); err != nil {
			return err
		}
	}
	return u.clearFlows(engine)
}

// clearFlows removes our flows from all bridges. OVN is no longer connected with them, so that the bridges may learn any
// MAC.
func (u Node) clearFlows(engine *ovndb.Engine) error {
	for _, bridge := range ovndb.List(engine.Conn, func(*vswitchdb.Bridge) bool { return true }) {
		if _, err := openflow.New(u.SwitchDir, bridge.Name).Apply(nil); err != nil && !errors.Is(err, openflow.ErrAbsent) {
			return fmt.Errorf("bridge %s: %w", bridge.Name, err)
		}
	}
	return nil
}

// unwantedUnits returns an empty unit for everything of ours. The database has no owner for the settings. The list
// therefore first applies them unchanged, so that the engine can remove them.
func unwantedUnits(engine *ovndb.Engine) []unit.Unit {
	var units []unit.Unit
	if ovs, ok := ovndb.Only[vswitchdb.OpenvSwitch](engine.Conn); ok {
		registered := desired.Registered(ovs.ExternalIDs)
		units = append(units, registered, unit.Unit{Key: registered.Key})
		units = append(units, desired.BridgeMapping(ovs.ExternalIDs, "", nil), desired.Answering(nil))
	}
	owners, _ := engine.Owners()
	for key := range owners {
		units = append(units, unit.Unit{Key: key})
	}
	return units
}

func removeLinks(links []cni.HostLink) error {
	for _, link := range links {
		if err := attach.RemoveLink(link); err != nil {
			return err
		}
	}
	return cni.RemoveGuards()
}

// removeFiles removes the files that the agent and weft-cni wrote next to the socket. It keeps the folder, which may be
// a mount.
func (u Node) removeFiles() error {
	if err := errors.Join(tombstone.Beside(u.Socket).RemoveAll(), attach.CopiesBeside(u.Socket).RemoveAll()); err != nil {
		return err
	}
	for _, path := range []string{u.Socket, u.Socket + ".new"} {
		if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return nil
}
