package uplink

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/vishvananda/netlink"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

// undoTimeout limits one undoing.
const undoTimeout = 30 * time.Second

// Recover undoes moves that a death interrupted, and moves of an earlier boot. If Open vSwitch does not run, it waits for
// Config.AwayGrace and gives the moved links their addresses back, as Watch does. The agent calls it before it contacts anything
// else. It does not move a link; Ensure does.
func (m *Mover) Recover(ctx context.Context) error {
	err := m.recover(ctx)
	m.awaitSwitch(ctx)
	return err
}

func (m *Mover) recover(ctx context.Context) error {
	unlock, err := m.lock(ctx, lockTimeout)
	if err != nil {
		return err
	}
	defer unlock()
	ledgers, err := m.dir().all()
	if len(ledgers) == 0 {
		return err
	}
	return errors.Join(err, m.withSwitch(ctx, func(sw *rows) error { return m.settleAll(ctx, sw, ledgers) }))
}

func (m *Mover) settleAll(ctx context.Context, sw *rows, ledgers []*Ledger) error {
	boot, err := m.cfg.BootID()
	if err != nil {
		return err
	}
	var failed error
	for _, l := range ledgers {
		if err := m.settle(ctx, sw, l, boot); err != nil {
			failed = errors.Join(failed, fmt.Errorf("link %s: %w", l.Snapshot.Link, err))
		}
	}
	return failed
}

// settle brings a link into a final state: on its bridge, or restored.
func (m *Mover) settle(ctx context.Context, sw *rows, l *Ledger, boot string) error {
	switch l.Phase {
	case Moving:
		l.Interrupted++
		return m.undo(ctx, sw, l, boot, "the agent ended during the move")
	case Undoing:
		if l.BootID == boot && l.WasAway {
			if err := m.giveBack(ctx, l); err != nil {
				return err // the rows stay: the bridge may still carry the addresses
			}
			return m.clear(ctx, sw, l, boot)
		}
		return m.undo(ctx, sw, l, boot, l.Reason)
	case Confirmed:
		return m.keep(ctx, sw, l, boot)
	case Away:
		return m.clear(ctx, sw, l, boot)
	}
	return nil
}

// keep checks a moved link. Open vSwitch may have lost the bridge or recreated its link.
func (m *Mover) keep(ctx context.Context, sw *rows, l *Ledger, boot string) error {
	switch {
	case l.BootID != boot:
		l.Forget = true
		return m.undo(ctx, sw, l, boot, "the host was rebooted")
	case sw == nil && l.Target.Datapath == networkv1alpha1.DatapathNetdev:
		return nil // awaitSwitch gives the link its addresses back
	case sw == nil:
		return errNoSwitch
	case !sw.isOurs(l.Target.Bridge, l.Snapshot.Link):
		l.Forget = true
		return m.undo(ctx, sw, l, boot, "Open vSwitch has lost the bridge")
	case l.Target.Uplink == networkv1alpha1.UplinkInterface:
		return nil
	}
	found, err := netlink.LinkByName(l.Target.Bridge)
	if err != nil {
		return fmt.Errorf("bridge %s: %w", l.Target.Bridge, err)
	}
	have, err := readLayer3(link{found.Attrs().Index, l.Target.Bridge})
	if err != nil || len(prefixes(have)) > 0 || len(prefixes(l.Snapshot.Layer3)) == 0 {
		return err
	}
	return m.host(sw).do(ctx, refill(l.Snapshot, l.Target))
}

// undo restores the link from the ledger. Without a connection to Open vSwitch it restores the host's side only and
// leaves the ledger in phase Undoing, so that the next call of settle does the rest.
func (m *Mover) undo(ctx context.Context, sw *rows, l *Ledger, boot, reason string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTimeout)
	defer cancel()
	l.Phase, l.Reason = Undoing, reason
	if err := m.dir().write(l); err != nil {
		m.cfg.Log.Error(err, "cannot write the ledger; continuing to undo the move", "link", l.Snapshot.Link)
	}
	m.cfg.failpoint("ledger " + string(Undoing))
	h := m.host(sw)
	err := h.doAll(ctx, Undo(l.Snapshot, l.Target, l.BootID == boot))
	if err = errors.Join(err, h.left); err != nil {
		return fmt.Errorf("undo the move (%s): %w", reason, err)
	}
	if l.Forget {
		return m.dir().remove(l.Snapshot.Link)
	}
	l.Phase = RolledBack
	if l.WasAway && l.Interrupted < maxInterrupted && l.BootID == boot {
		l.Phase = Away
	}
	l.WasAway = l.Phase == Away
	if err := m.dir().write(l); err != nil {
		return err
	}
	m.cfg.failpoint("ledger " + string(l.Phase))
	m.cfg.Report(l.Snapshot.Link, l.Target.Bridge, fmt.Errorf("%w: %s", ErrRolledBack, reason))
	return nil
}
