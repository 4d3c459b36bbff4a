package uplink

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

// Retry removes the ledgers of moves that were rolled back, so that Ensure tries those moves again.
func (m *Mover) Retry(ctx context.Context) error {
	unlock, err := m.lock(ctx, lockTimeout)
	if err != nil {
		return err
	}
	defer unlock()
	ledgers, err := m.dir().all()
	for _, l := range ledgers {
		if l.Phase == RolledBack {
			err = errors.Join(err, m.dir().remove(l.Snapshot.Link))
		}
	}
	return err
}

// Release restores all links, with the addresses and routes that their bridges have now, and leaves no files behind.
func (m *Mover) Release(ctx context.Context) error {
	unlock, err := m.lock(ctx, lockTimeout)
	if err != nil {
		return err
	}
	defer unlock()
	ledgers, err := m.dir().all()
	if err == nil && len(ledgers) > 0 {
		err = m.releaseAll(ctx, ledgers)
	}
	if err != nil {
		return err
	}
	return os.Remove(filepath.Join(m.cfg.Dir, lockName)) // no other process needs the lock any more
}

func (m *Mover) releaseAll(ctx context.Context, ledgers []*Ledger) error {
	boot, err := m.cfg.BootID()
	if err != nil {
		return err
	}
	return m.withSwitch(ctx, func(sw *rows) error {
		var failed error
		for _, l := range ledgers {
			failed = errors.Join(failed, m.release(ctx, sw, l, boot, "Weft is removed"))
		}
		return failed
	})
}

// GiveBack restores one link that was moved for uplink Interface or for a physical network.
func (m *Mover) GiveBack(ctx context.Context, link string) error {
	unlock, err := m.lock(ctx, lockTimeout)
	if err != nil {
		return err
	}
	defer unlock()
	l, err := m.dir().read(link)
	if l == nil || err != nil {
		return err
	}
	boot, err := m.cfg.BootID()
	if err != nil {
		return err
	}
	reason := "the gateway no longer uses the link"
	if l.Target.Physical {
		reason = "no physical network uses the link"
	}
	return m.withSwitch(ctx, func(sw *rows) error { return m.release(ctx, sw, l, boot, reason) })
}

func (m *Mover) release(ctx context.Context, sw *rows, l *Ledger, boot, reason string) error {
	switch {
	case l.Phase == RolledBack:
		return m.dir().remove(l.Snapshot.Link)
	case l.Phase == Away && sw == nil:
		return errNoSwitch
	case l.Phase == Away:
		if err := m.clear(ctx, sw, l, boot); err != nil {
			return err
		}
		return m.dir().remove(l.Snapshot.Link)
	case l.Phase == Confirmed && l.BootID == boot && l.Target.Uplink == networkv1alpha1.UplinkBridge:
		if err := refresh(l); err != nil {
			return err
		}
	}
	l.Forget = true
	return m.undo(ctx, sw, l, boot, reason)
}
