package uplink

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"github.com/vishvananda/netlink"

	"github.com/weft-network/weft/pkg/agent/desired"
	"github.com/weft-network/weft/pkg/ovndb"
	"github.com/weft-network/weft/pkg/ovndb/openvswitch"
	"github.com/weft-network/weft/pkg/unit"
	"github.com/weft-network/weft/pkg/vswitchdb"
)

const (
	// rowsTimeout bounds how long ovs-vswitchd may take for a change of a bridge.
	rowsTimeout = 10 * time.Second
	// removeTimeout is the same for its removal: who waits is a host without its addresses.
	removeTimeout = 3 * time.Second
	// linkInterval is how often the kernel is asked whether a bridge's link is there yet, or still: 2 ms are usual.
	linkInterval = 5 * time.Millisecond
)

// errNoSwitch says that Open vSwitch's database is out of reach.
var errNoSwitch = errors.New("Open vSwitch does not answer")

// rows is a writer of the Open_vSwitch database for one move. The agent's own, which lives as long as the agent, would put the rows back
// that the guard has just taken away.
type rows struct {
	engine *ovndb.Engine
	stop   func()
}

// connect returns errNoSwitch when the database does not answer in time.
func connect(ctx context.Context, remote string, timeout time.Duration, log logr.Logger) (*rows, error) {
	engine := ovndb.NewEngine(ovndb.Config{Schema: openvswitch.Schema(), Endpoints: []string{remote}, Log: log}, nil)
	engine.ReportOnly(true) // what the guard took away from a process that hangs must stay away when that goes on
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = engine.Run(running) // without a fence it ends only with its context
	}()
	r := &rows{engine: engine, stop: func() { stop(); <-ended }}
	wait, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if err := engine.Wait(wait, func() (bool, error) { return engine.Connected(), nil }); err != nil {
		r.stop()
		return nil, fmt.Errorf("%w: %w", errNoSwitch, errors.Join(err, engine.Failure()))
	}
	return r, nil
}

func (r *rows) close() {
	if r != nil {
		r.stop()
	}
}

// apply returns when ovs-vswitchd has followed.
func (r *rows) apply(ctx context.Context, s Rows) error {
	timeout := removeTimeout
	if s.Present {
		timeout = rowsTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	want := unit.Unit{Key: desired.UplinkKey(s.Bridge)}
	if s.Present {
		want = desired.UplinkBridge(desired.Uplink{Bridge: s.Bridge, Datapath: s.Datapath, MAC: s.MAC, MTU: s.MTU, Port: s.Port})
	}
	if err := r.engine.Apply(ctx, want); err != nil {
		return err
	}
	if !s.Present {
		return awaitLink(ctx, s.Bridge, false)
	}
	for _, name := range []string{s.Bridge, s.Port} {
		if name == "" {
			continue
		}
		if err := r.awaitPort(ctx, name); err != nil {
			return err
		}
	}
	return awaitLink(ctx, s.Bridge, true)
}

// awaitPort waits until ovs-vswitchd has opened an interface, or says that it cannot.
func (r *rows) awaitPort(ctx context.Context, name string) error {
	err := r.engine.Wait(ctx, func() (bool, error) {
		row, ok := ovndb.Find(r.engine.Conn, &vswitchdb.Interface{Name: name})
		switch {
		case !ok || row.Ofport == nil:
			return false, nil
		case row.Error != nil:
			return false, fmt.Errorf("ovs-vswitchd: interface %s: %s", name, *row.Error)
		}
		return *row.Ofport > 0, nil
	})
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("ovs-vswitchd has not opened %s: %w", name, err)
	}
	return err
}

// awaitLink asks the kernel: it may be behind what ovs-vswitchd has written.
func awaitLink(ctx context.Context, name string, present bool) error {
	ticker := time.NewTicker(linkInterval)
	defer ticker.Stop()
	for {
		_, err := netlink.LinkByName(name)
		var notFound netlink.LinkNotFoundError
		gone := errors.As(err, &notFound)
		if err != nil && !gone {
			return err
		}
		if gone != present {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("ovs-vswitchd has not followed: link %s: %w", name, ctx.Err())
		case <-ticker.C:
		}
	}
}

// isBridge reports whether Open vSwitch has a bridge of the name, whoever made it.
func (r *rows) isBridge(name string) bool {
	_, ok := ovndb.Find(r.engine.Conn, &vswitchdb.Bridge{Name: name})
	return ok
}

// isPort reports whether the link is a port of some bridge. Of which one the agent cannot tell of others' bridges: it does not read the
// ports of bridges, which on br-int are as many as pods.
func (r *rows) isPort(name string) bool {
	_, ok := ovndb.Find(r.engine.Conn, &vswitchdb.Port{Name: name})
	return ok
}

// isOurs reports whether bridge and port are those of a move.
func (r *rows) isOurs(bridge, port string) bool {
	_, hasBridge := ovndb.Get[vswitchdb.Bridge](r.engine.Conn, unit.UUID(vswitchdb.BridgeTable, bridge))
	_, hasPort := ovndb.Get[vswitchdb.Port](r.engine.Conn, desired.UplinkPortUUID(bridge, port))
	return hasBridge && hasPort
}
