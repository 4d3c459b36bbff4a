package ovndb

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/ovn-kubernetes/libovsdb/ovsdb"
)

const (
	// heartbeatKey is the external_ids key of the fence's row that a writer writes and then sees in the monitor. It
	// does not even wake ovn-northd.
	heartbeatKey = "weft.dev/heartbeat"
	// heartbeatComment marks the heartbeats' transactions in the server's log.
	heartbeatComment = "weft-heartbeat"
	// defaultHeartbeat is the default of Config.Heartbeat, and defaultBlindAfter that of Config.BlindAfter.
	defaultHeartbeat  = 5 * time.Second
	defaultBlindAfter = 30 * time.Second
)

// alive proves a connection. A writer proves it by a write that must return through the monitor, any other user by an
// echo. An echo is no proof for a writer: a server that is cut off from its cluster, or that has forgotten the
// monitor, still replies to it.
func (w *writer) alive(ctx context.Context) error {
	if w.fence == nil {
		return w.session.echo(ctx)
	}
	if err := w.heartbeat(ctx); err != nil {
		return fmt.Errorf("heartbeat: %w", err)
	}
	w.engine.seen()
	return nil
}

// seen records that the database responds, even if it cannot be used, because another process would fare no better.
func (e *Engine) seen() {
	if e.sight != nil {
		e.sight.renew(e.cfg.BlindAfter)
	}
}

// heartbeat writes a value that was never there before, behind the fence, and waits for it in the copy.
func (w *writer) heartbeat(ctx context.Context) error {
	w.beats++
	value := fmt.Sprintf("%d.%d", w.fence.epoch, w.beats)
	_, index, err := w.session.transact(ctx, w.fence.beat(value)...)
	if err != nil && index == 0 {
		err = fmt.Errorf("%w, or the database was replaced: epoch %d is gone: %w", ErrFenced, w.fence.epoch, err)
	}
	w.engine.cfg.Observer.Transaction(w.session.schema.Model.Name(), "heartbeat", 1, err)
	if err != nil {
		return err
	}
	return w.sees(ctx, func(ids map[string]string) (bool, error) { return ids[heartbeatKey] == value, nil })
}

// sees waits until the copy has what was written to external_ids of the fence's row, and with it all earlier commits.
func (w *writer) sees(ctx context.Context, written func(ids map[string]string) (bool, error)) error {
	ctx, cancel := context.WithTimeoutCause(ctx, w.session.limit, errors.New("the monitor does not return what was written"))
	defer cancel()
	ctx, lost := context.WithCancelCause(ctx)
	defer lost(nil)
	go func() {
		select {
		case <-w.session.lost:
			lost(errDisconnected)
		case <-ctx.Done():
		}
	}()
	return w.engine.Wait(ctx, func() (bool, error) {
		row := w.session.row(w.fence.table, "")
		if row == nil {
			return false, nil
		}
		ids, _ := column(row, "external_ids").(map[string]string)
		return written(ids)
	})
}

// beat returns the transaction of one heartbeat.
func (f *fence) beat(value string) []ovsdb.Operation {
	wait, comment := f.wait(), heartbeatComment
	key, pair := ovsdb.OvsSet{GoSet: []any{heartbeatKey}}, ovsdb.OvsMap{GoMap: map[any]any{heartbeatKey: value}}
	return []ovsdb.Operation{wait,
		{Op: ovsdb.OperationMutate, Table: f.table, Where: wait.Where, Mutations: []ovsdb.Mutation{
			{Column: "external_ids", Mutator: ovsdb.MutateOperationDelete, Value: key},
			{Column: "external_ids", Mutator: ovsdb.MutateOperationInsert, Value: pair}}},
		{Op: ovsdb.OperationComment, Comment: &comment}}
}

// sight ends a writer that has not seen its database for too long.
type sight struct {
	mu    sync.Mutex
	until time.Time
	timer *time.Timer
}

// watchSight returns a context that ends with ErrBlind unless the sight is renewed in time.
func watchSight(ctx context.Context, first time.Duration) (context.Context, *sight, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	s := &sight{until: time.Now().Add(first)}
	s.timer = time.AfterFunc(first, func() { cancel(ErrBlind) })
	return ctx, s, func() {
		s.timer.Stop()
		cancel(nil)
	}
}

// renew records that the database was seen, and allows d until the next time.
func (s *sight) renew(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.until = time.Now().Add(d)
	s.timer.Reset(d)
}

// extend allows d from now because a copy is arriving. It never shortens the time that was allowed before.
func (s *sight) extend(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if until := time.Now().Add(d); until.After(s.until) {
		s.until = until
		s.timer.Reset(d)
	}
}
