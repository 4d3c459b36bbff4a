package uplink

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

// newLedger takes the snapshot of a move, and returns an ErrRefused if the link cannot be moved.
func (m *Mover) newLedger(ctx context.Context, sw *rows, name string, req Request, boot string) (*Ledger, error) {
	target := Target{Bridge: BridgeName(name), Datapath: m.cfg.Datapath, Uplink: req.Uplink, Physical: req.Physical}
	if !m.isFree(ctx, sw, target.Bridge) {
		return nil, refuse("a bridge or link %s exists already, and %s is not a port of it", target.Bridge, name)
	}
	s, err := takeSnapshot(name, m.cfg.Datapath == networkv1alpha1.DatapathNetdev)
	if err != nil {
		return nil, err
	}
	if err := m.checkMovable(s, req); err != nil {
		return nil, err
	}
	now := time.Now()
	return &Ledger{
		Phase: Moving, Attempt: uuid.NewString(), BootID: boot, Started: now,
		Deadline: now.Add(m.cfg.MoveTimeout + m.cfg.GuardGrace), Wanted: req.String(), Target: target, Snapshot: s,
	}, nil
}

// isFree reports whether the name of a bridge is free. An ovs-vswitchd that has just started may create the link of a
// bridge whose rows were removed meanwhile, and remove it again. isFree waits for that.
func (m *Mover) isFree(ctx context.Context, sw *rows, bridge string) bool {
	if sw.isBridge(bridge) {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, removeTimeout)
	defer cancel()
	return awaitLink(ctx, bridge, false) == nil && !sw.isBridge(bridge)
}

// move moves a link as a commit-confirm.
func (m *Mover) move(ctx context.Context, sw *rows, l *Ledger, req Request) (Bridge, error) {
	s := l.Snapshot
	expected := answering(ctx, s.Link, targets(s, req))
	mustAnswer := req.Uplink != networkv1alpha1.UplinkInterface && (!req.Physical || len(prefixes(s.Layer3)) > 0)
	if mustAnswer && len(expected) == 0 {
		return Bridge{}, refuse(
			"no gateway, API server or other node answers over %s, so that a move could not be verified", s.Link)
	}
	if req.Uplink == networkv1alpha1.UplinkInterface {
		expected = withoutNeighbors(expected) // after the move, OVN resolves the neighbours
	}
	if err := m.dir().write(l); err != nil {
		return Bridge{}, err
	}
	m.cfg.failpoint("ledger " + string(Moving))
	guard, err := startGuard(m.cfg.GuardCommand, l)
	if err != nil {
		return Bridge{}, errors.Join(err, m.dir().remove(s.Link))
	}
	defer func() {
		if err := guard.end(); err != nil {
			m.cfg.Log.Error(err, "the guard process failed", "link", s.Link)
		}
	}()
	m.cfg.Log.Info("moving a link onto its bridge", "link", s.Link, "bridge", l.Target.Bridge, "deadline", l.Deadline)
	if err := m.try(ctx, sw, l, expected); err != nil {
		m.cfg.Log.Info("the move of a link failed; rolling back", "link", s.Link, "reason", err.Error())
		if l.WasAway && m.runs(l) {
			l.Interrupted++
		}
		if undoErr := m.undo(ctx, sw, l, l.BootID, err.Error()); undoErr != nil {
			return Bridge{}, undoErr
		}
		return Bridge{}, fmt.Errorf("%w: %w", ErrRolledBack, err)
	}
	m.cfg.Report(s.Link, l.Target.Bridge, nil)
	return bridgeOf(l), nil
}

// runs reports whether Open vSwitch runs, and has opened the link of the bridge.
func (m *Mover) runs(l *Ledger) bool {
	database := databaseOf(m.cfg.OpenVSwitch)
	defer database.close()
	return database.runs() && isAttached(l.Target.Bridge)
}

// try applies the steps, probes the expected targets and confirms the move, within the move's time.
func (m *Mover) try(ctx context.Context, sw *rows, l *Ledger, expected []target) error {
	end := l.Deadline.Add(-m.cfg.GuardGrace)
	ctx, cancel := context.WithDeadlineCause(ctx, end, errors.New("the move timed out"))
	defer cancel()
	if err := m.host(sw).do(ctx, Move(l.Snapshot, l.Target)); err != nil {
		return err
	}
	probing, done := context.WithTimeout(ctx, m.cfg.ProbeTimeout)
	defer done()
	if err := probe(probing, l.Target.Bridge, expected); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	l.Phase, l.Interrupted, l.WasAway = Confirmed, 0, false
	if err := m.dir().write(l); err != nil {
		return err
	}
	m.cfg.failpoint("ledger " + string(Confirmed))
	return nil
}

func withoutNeighbors(all []target) []target {
	var found []target
	for _, t := range all {
		if !t.neighbor {
			found = append(found, t)
		}
	}
	return found
}
