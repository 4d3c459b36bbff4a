package ovndb

import (
	"context"
	"fmt"
	"math"
	"strconv"

	"github.com/ovn-kubernetes/libovsdb/ovsdb"
)

const (
	// epochKey is the external_ids key of the fence's row that counts take-overs.
	epochKey = "weft.dev/epoch"
	// holderKey names the process that took the epoch. A process recognizes its own take-over by it after a lost
	// reply.
	holderKey = "weft.dev/epoch-holder"
)

// fence makes late commits of a former writer fail. Every transaction waits, with timeout 0, for the epoch that this
// process took.
type fence struct {
	table string
	epoch int
	name  string // of the row when the epoch was taken; the wait compares it
}

// claim is what a process writes to take the epoch.
type claim struct {
	holder string // identity of the process
	after  int    // the epoch that it held before, or 0
	writer string // Config.Writer
}

func (c claim) pairs(epoch int) ovsdb.OvsMap {
	return ovsdb.OvsMap{GoMap: map[any]any{epochKey: strconv.Itoa(epoch), holderKey: c.holder}}
}

// takeFence writes the next epoch by compare and set. If the epoch is larger than ours and another process holds it,
// that process took over meanwhile.
func takeFence(ctx context.Context, s *session, c claim) (*fence, error) {
	table := s.schema.Fence
	results, _, err := s.transact(ctx, ovsdb.Operation{Op: ovsdb.OperationSelect, Table: table,
		Columns: []string{"_uuid", "name", "external_ids"}})
	if err != nil {
		return nil, fmt.Errorf("read epoch: %w", err)
	}
	if len(results[0].Rows) == 0 {
		return insertFence(ctx, s, c)
	}
	row := results[0].Rows[0]
	ids := elementsOf(row["external_ids"])
	held, err := epochOf(ids)
	if err != nil {
		return nil, fmt.Errorf("%s.external_ids: %w", table, err)
	}
	if c.after != 0 && held > c.after && ids[holderKey] != c.holder {
		return nil, fmt.Errorf("%w: epoch is %d, ours was %d", ErrFenced, held, c.after)
	}
	return swapFence(ctx, s, row, c, max(held, c.after)+1)
}

// epochOf reads the epoch, or 0 if there is no epoch. The largest integer is an error, because the claim that follows
// it could not be distinguished from it.
func epochOf(ids map[string]string) (int, error) {
	text := ids[epochKey]
	if text == "" {
		return 0, nil
	}
	held, err := strconv.Atoi(text)
	if err != nil || held < 0 || held == math.MaxInt {
		return 0, fmt.Errorf("%s=%q is not a number from 0 to %d", epochKey, text, math.MaxInt-1)
	}
	return held, nil
}

func insertFence(ctx context.Context, s *session, c claim) (*fence, error) {
	row := ovsdb.Row{"external_ids": c.pairs(c.after + 1)}
	ops := []ovsdb.Operation{{Op: ovsdb.OperationInsert, Table: s.schema.Fence, Row: row}}
	_, _, err := s.transact(ctx, withComment(ops, c.writer, "takes over")...)
	if err != nil {
		return nil, fmt.Errorf("write first epoch: %w", err)
	}
	return &fence{table: s.schema.Fence, epoch: c.after + 1}, nil
}

func swapFence(ctx context.Context, s *session, row ovsdb.Row, c claim, epoch int) (*fence, error) {
	timeout, table := 0, s.schema.Fence
	keys := ovsdb.OvsSet{GoSet: []any{epochKey, holderKey}}
	where := []ovsdb.Condition{ovsdb.NewCondition("_uuid", ovsdb.ConditionEqual, row["_uuid"])}
	ops := []ovsdb.Operation{
		{Op: ovsdb.OperationWait, Table: table, Timeout: &timeout, Where: where,
			Columns: []string{"external_ids"}, Until: "==", Rows: []ovsdb.Row{{"external_ids": row["external_ids"]}}},
		{Op: ovsdb.OperationMutate, Table: table, Where: where, Mutations: []ovsdb.Mutation{
			{Column: "external_ids", Mutator: ovsdb.MutateOperationDelete, Value: keys},
			{Column: "external_ids", Mutator: ovsdb.MutateOperationInsert, Value: c.pairs(epoch)}}},
	}
	_, index, err := s.transact(ctx, withComment(ops, c.writer, "takes over")...)
	if err != nil && index == 0 {
		return nil, fmt.Errorf("%s changed while the epoch was being taken", table) // the next attempt finds out which process changed it
	}
	if err != nil {
		return nil, fmt.Errorf("take epoch %d: %w", epoch, err)
	}
	name, _ := row["name"].(string)
	return &fence{table: table, epoch: epoch, name: name}, nil
}

// taken reports whether external_ids of the fence's row has the epoch. A later epoch is ErrFenced.
func (f *fence) taken(ids map[string]string) (bool, error) {
	held, err := epochOf(ids)
	if err == nil && held > f.epoch {
		err = fmt.Errorf("%w: epoch is %d, ours was %d", ErrFenced, held, f.epoch)
	}
	return held == f.epoch, err
}

// wait is the first operation of every transaction. The library omits an empty list of rows, which the server
// refuses. Therefore the wait compares the name of the row that holds our epoch.
func (f *fence) wait() ovsdb.Operation {
	timeout := 0
	pair := ovsdb.OvsMap{GoMap: map[any]any{epochKey: strconv.Itoa(f.epoch)}}
	return ovsdb.Operation{Op: ovsdb.OperationWait, Table: f.table, Timeout: &timeout,
		Where:   []ovsdb.Condition{ovsdb.NewCondition("external_ids", ovsdb.ConditionIncludes, pair)},
		Columns: []string{"name"}, Until: "==", Rows: []ovsdb.Row{{"name": f.name}}}
}
