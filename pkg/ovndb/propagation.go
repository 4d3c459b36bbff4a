package ovndb

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ovn-kubernetes/libovsdb/ovsdb"
)

// Columns of NB_Global in which OVN acknowledges a configuration (ovn-nb(5)).
const (
	requestColumn  = "nb_cfg"
	copiedColumn   = "sb_cfg"
	answeredColumn = "hv_cfg"
)

// answerPatience is how long chassis may take to acknowledge. A slower chassis counts as lost.
const answerPatience = time.Minute

// ErrNotAll means that ovn-northd has acknowledged, but not every chassis.
var ErrNotAll = errors.New("not every chassis has acknowledged the change")

// ErrNotCopied means that ovn-northd has not copied the northbound database to the southbound one in time.
var ErrNotCopied = errors.New("ovn-northd does not respond: changes of the OVN northbound database do not reach the southbound one")

// Propagation measures how long OVN takes until every chassis has installed the current content of the database.
// ovn-northd copies a sequence number, and each ovn-controller writes its own acknowledgement, so that a measurement
// costs a write per chassis. It returns ErrNotCopied if ovn-northd does not acknowledge within a call's deadline. It
// returns ErrNotAll if a chassis takes over a minute, or if another measurement begins meanwhile. It also fails while
// the engine is offline.
func (e *Engine) Propagation(ctx context.Context) (time.Duration, error) {
	e.mu.Lock()
	w := e.writer
	e.mu.Unlock()
	if w == nil || w.fence == nil {
		return 0, errDisconnected
	}
	began := time.Now()
	number, err := w.requestAnswer(ctx)
	if err == nil {
		err = w.awaitAll(ctx, number, began.Add(answerPatience))
	}
	return time.Since(began), err
}

// awaitAll waits until every chassis has acknowledged a number. It repeats its calls, because an overloaded chassis
// may take longer than a call's deadline, and that is what the measurement must show.
func (w *writer) awaitAll(ctx context.Context, number any, until time.Time) error {
	for {
		err := w.answered(ctx, number)
		if err == nil || ctx.Err() != nil {
			return err
		}
		on, err := w.copied(ctx, number)
		if err != nil {
			return err
		}
		if !on || time.Now().After(until) {
			return ErrNotAll
		}
	}
}

func (w *writer) requestAnswer(ctx context.Context) (number any, err error) {
	where := w.fence.wait().Where
	ops := []ovsdb.Operation{w.fence.wait(),
		{Op: ovsdb.OperationMutate, Table: w.fence.table, Where: where,
			Mutations: []ovsdb.Mutation{{Column: requestColumn, Mutator: ovsdb.MutateOperationAdd, Value: 1}}},
		{Op: ovsdb.OperationSelect, Table: w.fence.table, Where: where, Columns: []string{requestColumn}}}
	results, _, err := w.session.transact(ctx, withComment(ops, w.engine.cfg.Writer, "measures propagation")...)
	w.engine.cfg.Observer.Transaction(w.session.schema.Model.Name(), "propagation", 1, err)
	if err != nil {
		return nil, err
	}
	if rows := results[2].Rows; len(rows) == 1 {
		return rows[0][requestColumn], nil
	}
	return nil, fmt.Errorf("%s is empty", w.fence.table)
}

// answered waits in the server, for slightly less than a call's deadline.
func (w *writer) answered(ctx context.Context, number any) error {
	const margin = time.Second
	wait := w.fence.wait()
	timeout := int((w.session.limit - margin).Milliseconds())
	wait.Timeout, wait.Columns, wait.Rows = &timeout, []string{answeredColumn}, []ovsdb.Row{{answeredColumn: number}}
	_, _, err := w.session.transact(ctx, wait)
	return err
}

// copied returns nil once ovn-northd has acknowledged a number. on reports whether chassis may still acknowledge it,
// because no other measurement has begun.
func (w *writer) copied(ctx context.Context, number any) (on bool, err error) {
	wait := w.fence.wait()
	results, _, err := w.session.transact(ctx, wait, ovsdb.Operation{Op: ovsdb.OperationSelect, Table: w.fence.table,
		Where: wait.Where, Columns: []string{requestColumn, copiedColumn}})
	if err != nil {
		return false, err
	}
	requested, ok := number.(float64)
	if !ok || len(results) != 2 || len(results[1].Rows) != 1 {
		return false, fmt.Errorf("%s: %s cannot be compared", w.fence.table, copiedColumn)
	}
	row := results[1].Rows[0]
	if copied, ok := row[copiedColumn].(float64); ok && copied < requested {
		return false, ErrNotCopied
	}
	return row[requestColumn] == number, nil
}
