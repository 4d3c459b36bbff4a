package ovndb

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ovn-kubernetes/libovsdb/ovsdb"
)

// Columns of NB_Global with which OVN answers (ovn-nb(5)).
const (
	askedColumn    = "nb_cfg"
	copiedColumn   = "sb_cfg"
	answeredColumn = "hv_cfg"
)

// answerPatience is how long chassis may take to answer. Those that take longer are not told from one that is lost, which never answers.
const answerPatience = time.Minute

// ErrNotAll says that ovn-northd has answered and not every chassis.
var ErrNotAll = errors.New("not every chassis answers")

// ErrNotCopied says that ovn-northd has not copied what the database has into the southbound one, although it had the time.
var ErrNotCopied = errors.New("ovn-northd does not answer: what is in the OVN northbound database does not reach the southbound one")

// Propagation asks OVN to answer, and returns how long it took until every chassis had installed what the database has now: ovn-northd copies
// the number, and each ovn-controller its own answer, so that one question costs a write per chassis. It is an error if ovn-northd does not
// answer within a call's deadline (ErrNotCopied), a chassis does not within a minute or somebody else asks meanwhile (ErrNotAll), and while
// the engine is offline.
func (e *Engine) Propagation(ctx context.Context) (time.Duration, error) {
	e.mu.Lock()
	w := e.writer
	e.mu.Unlock()
	if w == nil || w.fence == nil {
		return 0, errDisconnected
	}
	began := time.Now()
	number, err := w.ask(ctx)
	if err == nil {
		err = w.awaitAll(ctx, number, began.Add(answerPatience))
	}
	return time.Since(began), err
}

// awaitAll waits until a number is every chassis' answer. A call has a deadline that is shorter than what an overloaded chassis takes, and that
// is just what is to be measured.
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

func (w *writer) ask(ctx context.Context) (number any, err error) {
	where := w.fence.wait().Where
	results, _, err := w.session.transact(ctx, w.fence.wait(),
		ovsdb.Operation{Op: ovsdb.OperationMutate, Table: w.fence.table, Where: where, Mutations: []ovsdb.Mutation{{Column: askedColumn, Mutator: ovsdb.MutateOperationAdd, Value: 1}}},
		ovsdb.Operation{Op: ovsdb.OperationSelect, Table: w.fence.table, Where: where, Columns: []string{askedColumn}})
	w.engine.cfg.Observer.Transaction(w.session.schema.Model.Name(), "propagation", 1, err)
	if err != nil {
		return nil, err
	}
	if rows := results[2].Rows; len(rows) == 1 {
		return rows[0][askedColumn], nil
	}
	return nil, fmt.Errorf("%s is empty", w.fence.table)
}

// answered lets the server wait, shortly less long than the call.
func (w *writer) answered(ctx context.Context, number any) error {
	const margin = time.Second
	wait := w.fence.wait()
	timeout := int((w.session.limit - margin).Milliseconds())
	wait.Timeout, wait.Columns, wait.Rows = &timeout, []string{answeredColumn}, []ovsdb.Row{{answeredColumn: number}}
	_, _, err := w.session.transact(ctx, wait)
	return err
}

// copied is nil when ovn-northd has answered a number; on says that chassis may still do so: nobody else has asked since.
func (w *writer) copied(ctx context.Context, number any) (on bool, err error) {
	wait := w.fence.wait()
	results, _, err := w.session.transact(ctx, wait, ovsdb.Operation{Op: ovsdb.OperationSelect, Table: w.fence.table, Where: wait.Where, Columns: []string{askedColumn, copiedColumn}})
	if err != nil {
		return false, err
	}
	asked, ok := number.(float64)
	if !ok || len(results) != 2 || len(results[1].Rows) != 1 {
		return false, fmt.Errorf("%s: %s cannot be compared", w.fence.table, copiedColumn)
	}
	row := results[1].Rows[0]
	if copied, ok := row[copiedColumn].(float64); ok && copied < asked {
		return false, ErrNotCopied
	}
	return row[askedColumn] == number, nil
}
