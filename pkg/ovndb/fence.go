package ovndb

import (
	"context"
	"fmt"
	"strconv"

	"github.com/ovn-kubernetes/libovsdb/ovsdb"
)

// epochKey is the external_ids key of the fence's row that counts take-overs.
const epochKey = "weft.dev/epoch"

// fence makes late commits of a former writer fail: every transaction waits, with timeout 0, for the epoch that this
// process took.
type fence struct {
	table string
	epoch int
	name  string // the row's name as it was when the epoch was taken; the wait compares it
}

// takeFence writes the next epoch by compare and set. after is the epoch that this process held before (0: none): a larger one in
// the database means that another process took over meanwhile.
func takeFence(ctx context.Context, s *session, after int) (*fence, error) {
	table := s.schema.Fence
	results, _, err := s.transact(ctx, ovsdb.Operation{Op: ovsdb.OperationSelect, Table: table, Columns: []string{"_uuid", "name", "external_ids"}})
	if err != nil {
		return nil, fmt.Errorf("read epoch: %w", err)
	}
	if len(results[0].Rows) == 0 {
		return insertFence(ctx, s, after+1)
	}
	row := results[0].Rows[0]
	ids := elementsOf(row["external_ids"])
	held, err := strconv.Atoi(ids[epochKey])
	if ids[epochKey] != "" && err != nil {
		return nil, fmt.Errorf("%s.external_ids %s=%q is not a number", table, epochKey, ids[epochKey])
	}
	if after != 0 && held > after {
		return nil, fmt.Errorf("%w: epoch is %d, ours was %d", ErrFenced, held, after)
	}
	return swapFence(ctx, s, row, max(held, after)+1)
}

func insertFence(ctx context.Context, s *session, epoch int) (*fence, error) {
	row := ovsdb.Row{"external_ids": ovsdb.OvsMap{GoMap: map[any]any{epochKey: strconv.Itoa(epoch)}}}
	_, _, err := s.transact(ctx, ovsdb.Operation{Op: ovsdb.OperationInsert, Table: s.schema.Fence, Row: row})
	if err != nil {
		return nil, fmt.Errorf("write first epoch: %w", err)
	}
	return &fence{table: s.schema.Fence, epoch: epoch}, nil
}

func swapFence(ctx context.Context, s *session, row ovsdb.Row, epoch int) (*fence, error) {
	timeout, table := 0, s.schema.Fence
	keys := ovsdb.OvsSet{GoSet: []any{epochKey}}
	pair := ovsdb.OvsMap{GoMap: map[any]any{epochKey: strconv.Itoa(epoch)}}
	where := []ovsdb.Condition{ovsdb.NewCondition("_uuid", ovsdb.ConditionEqual, row["_uuid"])}
	_, index, err := s.transact(ctx,
		ovsdb.Operation{Op: ovsdb.OperationWait, Table: table, Timeout: &timeout, Where: where,
			Columns: []string{"external_ids"}, Until: "==", Rows: []ovsdb.Row{{"external_ids": row["external_ids"]}}},
		ovsdb.Operation{Op: ovsdb.OperationMutate, Table: table, Where: where, Mutations: []ovsdb.Mutation{
			{Column: "external_ids", Mutator: ovsdb.MutateOperationDelete, Value: keys},
			{Column: "external_ids", Mutator: ovsdb.MutateOperationInsert, Value: pair}}})
	if err != nil && index == 0 {
		return nil, fmt.Errorf("%w while the epoch was being taken", ErrFenced)
	}
	if err != nil {
		return nil, fmt.Errorf("take epoch %d: %w", epoch, err)
	}
	name, _ := row["name"].(string)
	return &fence{table: table, epoch: epoch, name: name}, nil
}

// wait is the first operation of every transaction. The library omits an empty list of rows and the server refuses that, so
// it compares the name of the row that holds our epoch.
func (f *fence) wait() ovsdb.Operation {
	timeout := 0
	pair := ovsdb.OvsMap{GoMap: map[any]any{epochKey: strconv.Itoa(f.epoch)}}
	return ovsdb.Operation{Op: ovsdb.OperationWait, Table: f.table, Timeout: &timeout,
		Where:   []ovsdb.Condition{ovsdb.NewCondition("external_ids", ovsdb.ConditionIncludes, pair)},
		Columns: []string{"name"}, Until: "==", Rows: []ovsdb.Row{{"name": f.name}}}
}
