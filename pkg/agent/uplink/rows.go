package uplink

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/weft-network/weft/pkg/agent/desired"
	"github.com/weft-network/weft/pkg/ovn/vswitchdb"
	"github.com/weft-network/weft/pkg/ovndb"
	"github.com/weft-network/weft/pkg/ovndb/openvswitch"
	"github.com/weft-network/weft/pkg/unit"
)

const (
	// rowsTimeout limits how long ovs-vswitchd may take to change a bridge.
	rowsTimeout = 10 * time.Second
	// removeTimeout is the same limit for a removal. It is shorter because the host has no addresses meanwhile.
	removeTimeout = 3 * time.Second
	// linkInterval is the time between reads of a bridge's link from the kernel. A change usually takes 2 ms.
	linkInterval = 5 * time.Millisecond
)

// errNoSwitch means that there is no connection to Open vSwitch's database.
var errNoSwitch = errors.New("Open vSwitch does not answer")

// rows writes to the Open_vSwitch database during one move. It does not use the agent's own connection, whose engine
// lives as long as the agent and would restore rows that the guard has just removed.
type rows struct {
	engine *ovndb.Engine
	stop   func()
}

// connect returns errNoSwitch if the database does not answer within the timeout.
func connect(ctx context.Context, remote string, timeout time.Duration, log logr.Logger) (*rows, error) {
	engine := ovndb.NewEngine(ovndb.Config{Schema: openvswitch.Schema(), Endpoints: []string{remote}, Log: log}, nil)
	engine.ReportOnly(true) // after a hang, this process must not restore rows that the guard has removed
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = engine.Run(running) // without a fence, Run ends only with its context
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

// apply returns after ovs-vswitchd has applied the rows.
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
	forgotten := !s.Present && !r.isBridge(s.Bridge)
	if err := r.engine.Apply(ctx, want); err != nil {
		return err
	}
	if forgotten {
		if err := removeTap(s.Bridge); err != nil {
			return err
		}
	}
	if !s.Present {
		err := awaitLink(ctx, s.Bridge, false)
		if err != nil { // an ovs-vswitchd that has started meanwhile never knew the bridge
			err = errors.Join(removeTap(s.Bridge), awaitLink(ctx, s.Bridge, false))
		}
		return err
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

// awaitPort waits until ovs-vswitchd has opened an interface or reports an error for it.
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

// removeTap removes the link of a bridge that Open vSwitch does not know any more. An ovs-vswitchd that died leaves the
// links of the userspace datapath, which are persistent, and its successor removes only links in its database.
func removeTap(name string) error {
	link, err := netlink.LinkByName(name)
	var notFound netlink.LinkNotFoundError
	if errors.As(err, &notFound) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("link %s: %w", name, err)
	}
	if _, ok := link.(*netlink.Tuntap); !ok {
		return nil
	}
	if err := netlink.LinkDel(link); err != nil && !errors.Is(err, unix.ENODEV) {
		return fmt.Errorf("remove link %s, which Open vSwitch has forgotten: %w", name, err)
	}
	return nil
}

// awaitLink waits until a link exists in the kernel, or no longer does. The kernel may lag behind what ovs-vswitchd
// writes.
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
			return fmt.Errorf("ovs-vswitchd has not applied the change: link %s: %w", name, ctx.Err())
		case <-ticker.C:
		}
	}
}

// isBridge reports whether Open vSwitch has a bridge with this name, from any owner.
func (r *rows) isBridge(name string) bool {
	_, ok := ovndb.Find(r.engine.Conn, &vswitchdb.Bridge{Name: name})
	return ok
}

// isPort reports whether the link is a port of any bridge. It cannot return the bridge, because the agent does not read
// the port lists of bridges: br-int has a port for each pod.
func (r *rows) isPort(name string) bool {
	_, ok := ovndb.Find(r.engine.Conn, &vswitchdb.Port{Name: name})
	return ok
}

// isOurs reports whether both the bridge and the port were created by a move.
func (r *rows) isOurs(bridge, port string) bool {
	_, hasBridge := ovndb.Get[vswitchdb.Bridge](r.engine.Conn, unit.UUID(vswitchdb.BridgeTable, bridge))
	_, hasPort := ovndb.Get[vswitchdb.Port](r.engine.Conn, desired.UplinkPortUUID(bridge, port))
	return hasBridge && hasPort
}
