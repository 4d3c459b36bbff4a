package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/go-logr/logr"

	"github.com/weft-network/weft/pkg/agent/desired"
	"github.com/weft-network/weft/pkg/agent/hostnet"
	"github.com/weft-network/weft/pkg/agent/nftables"
	"github.com/weft-network/weft/pkg/agent/openflow"
	"github.com/weft-network/weft/pkg/agent/uplink"
	"github.com/weft-network/weft/pkg/cni"
	"github.com/weft-network/weft/pkg/names"
	"github.com/weft-network/weft/pkg/ovndb"
	"github.com/weft-network/weft/pkg/ovndb/openvswitch"
	"github.com/weft-network/weft/pkg/tombstone"
	"github.com/weft-network/weft/pkg/unit"
	"github.com/weft-network/weft/pkg/vswitchdb"
)

// switchTimeout is Uninstall.SwitchTimeout where none is given.
const switchTimeout = 30 * time.Second

// Uninstall says what to take off a node.
type Uninstall struct {
	// OpenVSwitch is the OVSDB remote of the local database, SwitchDir the run directory of ovs-vswitchd.
	OpenVSwitch, SwitchDir string
	// Socket, ConfDir and BinDir are those of the agent's Options.
	Socket, ConfDir, BinDir string
	// Mover brings links of the host back from their bridges; nil: there are none.
	Mover *uplink.Mover
	// CutPods also takes the interfaces of pods that run; otherwise they stop it.
	CutPods bool
	// SwitchTimeout bounds how long Open vSwitch is waited for; 0 is 30 s.
	SwitchTimeout time.Duration
	Log           logr.Logger
}

// Run takes everything of ours off the node: the runtime's configuration first, so that it calls nothing that is half gone, then the
// plugin, the rows in Open vSwitch, links, routes and rules, and the agent's files. It stops before it changes anything while an agent
// answers, which would make all anew, and while pods have interfaces. What is gone already is no error: run it again after a failure.
func (u Uninstall) Run(ctx context.Context) error {
	links, err := cni.List()
	if err != nil {
		return err
	}
	if err := u.mayBegin(ctx, links); err != nil {
		return err
	}
	for _, step := range []struct {
		what string
		do   func(context.Context) error
	}{
		{"CNI configuration and plugin", func(context.Context) error { return (&cniConfig{confDir: u.ConfDir, binDir: u.BinDir}).remove() }},
		{"addresses and routes of " + names.ManagementInterface, func(context.Context) error { return hostnet.Clear(names.ManagementInterface) }},
		{"rules of nftables", (&nftables.Table{}).Remove},
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

// releaseLinks comes before the rows: with its row a bridge loses the host's addresses.
func (u Uninstall) releaseLinks(ctx context.Context) error {
	if u.Mover == nil {
		return nil
	}
	return u.Mover.Release(ctx)
}

// mayBegin refuses what would be undone at once, and what would cut off pods.
func (u Uninstall) mayBegin(ctx context.Context, links []cni.HostLink) error {
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", u.Socket)
	if err == nil {
		conn.Close()
		return fmt.Errorf("uninstall: an agent answers on %s: delete its DaemonSet first", u.Socket)
	}
	if len(links) > 0 && !u.CutPods {
		return fmt.Errorf("uninstall: %d interfaces of pods are left on this node: drain it, or say --cut-pods; nothing was changed", len(links))
	}
	return nil
}

// clearSwitch takes our rows and settings out of Open vSwitch.
func (u Uninstall) clearSwitch(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(u.SwitchTimeout, switchTimeout))
	defer cancel()
	engine := ovndb.NewEngine(ovndb.Config{Schema: openvswitch.Schema(), Endpoints: []string{u.OpenVSwitch}, Log: u.Log}, nil)
	running, stop := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = engine.Run(running) // without a fence it ends only with its context
	}()
	defer func() { stop(); <-ended }()
	connected := func() (bool, error) { return engine.Connected(), nil }
	if err := engine.Wait(ctx, connected); err != nil {
		return errors.Join(err, engine.Failure())
	}
	for _, unwanted := range unwantedUnits(engine) {
		if err := engine.Apply(ctx, unwanted); err != nil {
			return err
		}
	}
	return u.clearFlows(engine)
}

// clearFlows takes our flows off every bridge. Nothing is connected with OVN by now, so that the bridge may learn what it likes.
func (u Uninstall) clearFlows(engine *ovndb.Engine) error {
	for _, bridge := range ovndb.List(engine.Conn, func(b *vswitchdb.Bridge) bool { return b.Name != names.IntegrationBridge }) {
		if _, err := openflow.New(u.SwitchDir, bridge.Name).Apply(nil); err != nil && !errors.Is(err, openflow.ErrAbsent) {
			return fmt.Errorf("bridge %s: %w", bridge.Name, err)
		}
	}
	return nil
}

// unwantedUnits are the units of all that is ours, as nothing. The settings have no owner's name in the database: they are wanted once as
// they are, so that the engine knows them.
func unwantedUnits(engine *ovndb.Engine) []unit.Unit {
	var units []unit.Unit
	if ovs, ok := ovndb.Only[vswitchdb.OpenvSwitch](engine.Conn); ok {
		registered := desired.Registered(ovs.ExternalIDs)
		units = append(units, registered, unit.Unit{Key: registered.Key})
		if present := ovs.ExternalIDs[desired.BridgeMappingsKey]; desired.MappedBridge(present) != "" {
			units = append(units, desired.BridgeMapping(present, desired.MappedBridge(present)), desired.BridgeMapping(present, ""))
		}
	}
	owners, _ := engine.Owners()
	for key := range owners {
		units = append(units, unit.Unit{Key: key})
	}
	return units
}

func removeLinks(links []cni.HostLink) error {
	for _, link := range links {
		if err := removeLink(link); err != nil {
			return err
		}
	}
	return cni.RemoveGuards()
}

// removeFiles removes what the agent and weft-cni wrote beside the socket; the folder may be a mount.
func (u Uninstall) removeFiles() error {
	if err := tombstone.Beside(u.Socket).RemoveAll(); err != nil {
		return err
	}
	for _, path := range []string{u.Socket, u.Socket + ".new"} {
		if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return nil
}
