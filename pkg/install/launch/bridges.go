package launch

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ovn-kubernetes/libovsdb/client"
	"github.com/ovn-kubernetes/libovsdb/ovsdb"

	"github.com/weft-network/weft/pkg/ovn/vswitchdb"
)

// devicesGone is how long ovs-vswitchd may take to remove the devices of a bridge.
const devicesGone = 30 * time.Second

// switches is a client of Open vSwitch's database. It monitors no table; each method queries the database.
type switches struct{ client client.Client }

func openSwitches(ctx context.Context, endpoint string) (*switches, error) {
	database, err := vswitchdb.FullDatabaseModel()
	if err != nil {
		return nil, err
	}
	c, err := client.NewOVSDBClient(database, client.WithEndpoint(endpoint))
	if err != nil {
		return nil, err
	}
	if err := c.Connect(ctx); err != nil {
		return nil, fmt.Errorf("Open vSwitch's database at %s: %w", endpoint, err)
	}
	return &switches{c}, nil
}

// bridges returns the UUIDs of all bridges by name.
func (s *switches) bridges(ctx context.Context) (map[string]string, error) {
	results, err := s.transact(ctx,
		ovsdb.Operation{Op: ovsdb.OperationSelect, Table: vswitchdb.BridgeTable, Columns: []string{"_uuid", "name"}})
	if err != nil {
		return nil, err
	}
	found := map[string]string{}
	for _, row := range results[0].Rows {
		name, _ := row["name"].(string)
		id, _ := row["_uuid"].(ovsdb.UUID)
		found[name] = id.GoUUID
	}
	return found, nil
}

// remove deletes a bridge and returns after ovs-vswitchd has removed its devices.
func (s *switches) remove(ctx context.Context, id string) error {
	table := vswitchdb.OpenvSwitchTable
	results, err := s.transact(ctx, ovsdb.Operation{Op: ovsdb.OperationSelect, Table: table, Columns: []string{"_uuid"}})
	if err != nil {
		return err
	}
	if len(results[0].Rows) != 1 {
		return fmt.Errorf("table %s has %d rows", table, len(results[0].Rows))
	}
	row := []ovsdb.Condition{ovsdb.NewCondition("_uuid", ovsdb.ConditionEqual, results[0].Rows[0]["_uuid"])}
	results, err = s.transact(ctx,
		ovsdb.Operation{Op: ovsdb.OperationMutate, Table: table, Where: row, Mutations: []ovsdb.Mutation{
			*ovsdb.NewMutation("bridges", ovsdb.MutateOperationDelete, ovsdb.OvsSet{GoSet: []any{ovsdb.UUID{GoUUID: id}}}),
			*ovsdb.NewMutation("next_cfg", ovsdb.MutateOperationAdd, 1),
		}},
		ovsdb.Operation{Op: ovsdb.OperationSelect, Table: table, Where: row, Columns: []string{"next_cfg"}})
	if err != nil {
		return err
	}
	if len(results[1].Rows) != 1 {
		return fmt.Errorf("the row of table %s is gone", table)
	}
	timeout := int(devicesGone.Milliseconds())
	if _, err = s.transact(ctx, ovsdb.Operation{
		Op: ovsdb.OperationWait, Table: table, Where: row, Timeout: &timeout, Columns: []string{"cur_cfg"},
		Until: string(ovsdb.WaitConditionEqual), Rows: []ovsdb.Row{{"cur_cfg": results[1].Rows[0]["next_cfg"]}},
	}); err != nil {
		return fmt.Errorf("ovs-vswitchd has not removed the bridge: %w", err)
	}
	return nil
}

func (s *switches) transact(ctx context.Context, ops ...ovsdb.Operation) ([]ovsdb.OperationResult, error) {
	results, err := s.client.Transact(ctx, ops...)
	if err != nil {
		return nil, err
	}
	refused, err := ovsdb.CheckOperationResults(results, ops)
	for _, one := range refused {
		err = errors.Join(err, one)
	}
	return results, err
}

// clearBridges deletes the integration bridge. It changes nothing and returns an error if any other bridge exists.
func clearBridges(ctx context.Context, endpoint string) (err error) {
	s, err := openSwitches(ctx, endpoint)
	if err != nil {
		return err
	}
	defer s.client.Close()
	bridges, err := s.bridges(ctx)
	if err != nil {
		return err
	}
	for name := range bridges {
		if name != integrationBridge {
			err = errors.Join(err, fmt.Errorf("bridge %s is not Weft's and would stop forwarding with Weft's Open vSwitch: "+
				"move its ports elsewhere and delete the bridge", name))
		}
	}
	if id, there := bridges[integrationBridge]; there && err == nil {
		return s.remove(ctx, id)
	}
	return err
}
