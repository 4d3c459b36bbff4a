package ovndb

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/ovn-kubernetes/libovsdb/ovsdb"

	"github.com/weft-network/weft/pkg/ovndb/ovndbtest"
)

// transactOn sends a transaction to a real northbound server and returns the refusal of its results.
func transactOn(t *testing.T, server *ovndbtest.Server, ops ...ovsdb.Operation) (index int, err error) {
	t.Helper()
	conn, err := net.Dial("unix", strings.TrimPrefix(server.Endpoint(), "unix:"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	params := []any{"OVN_Northbound"}
	for _, op := range ops {
		params = append(params, op)
	}
	var replies json.RawMessage
	if err := newCall(conn).do("transact", &replies, params...); err != nil {
		t.Fatal(err)
	}
	var results []ovsdb.OperationResult
	if err := json.Unmarshal(replies, &results); err != nil {
		t.Fatalf("%s: %v", replies, err)
	}
	return refusal(results, ops)
}

// The engine computes a plan again when the server reports that the database has changed since. A real server must
// report it in the words that the code and libovsdb recognize. Every other refusal is final.
func TestRefusalsOfARealServer(t *testing.T) {
	const port, lswitch = "11111111-1111-4111-8111-111111111111", "22222222-2222-4222-8222-222222222222"
	insertPort := ovsdb.Operation{Op: ovsdb.OperationInsert, Table: "Logical_Switch_Port", UUID: port, Row: ovsdb.Row{"name": "p"}}
	insertSwitch := ovsdb.Operation{Op: ovsdb.OperationInsert, Table: "Logical_Switch", UUID: lswitch,
		Row: ovsdb.Row{"name": "s", "ports": ovsdb.UUID{GoUUID: port}}}
	server := ovndbtest.Start(t, "ovn-nb")
	if index, err := transactOn(t, server, insertPort, insertSwitch); err != nil {
		t.Fatalf("operation %d: %v", index, err)
	}
	where := []ovsdb.Condition{ovsdb.NewCondition("_uuid", ovsdb.ConditionEqual, ovsdb.UUID{GoUUID: port})}
	for _, c := range []struct {
		name     string
		ops      []ovsdb.Operation
		index    int
		outdated bool
	}{
		{"a row that is there", []ovsdb.Operation{{Op: ovsdb.OperationComment, Comment: new(string)}, insertPort}, 1, true},
		{"a referenced row is deleted", []ovsdb.Operation{{Op: ovsdb.OperationDelete, Table: "Logical_Switch_Port",
			Where: where}}, 1, true},
		{"an index has the value", []ovsdb.Operation{{Op: ovsdb.OperationInsert, Table: "Chassis_Template_Var",
			Row: ovsdb.Row{"chassis": "c"}},
			{Op: ovsdb.OperationInsert, Table: "Chassis_Template_Var", Row: ovsdb.Row{"chassis": "c"}}}, 2, false},
		{"a wait", []ovsdb.Operation{{Op: ovsdb.OperationWait, Table: "Logical_Switch_Port", Where: where,
			Timeout: new(int), Columns: []string{"name"},
			Until: string(ovsdb.WaitConditionEqual), Rows: []ovsdb.Row{{"name": "other"}}}}, 0, false},
	} {
		index, err := transactOn(t, server, c.ops...)
		if err == nil || index != c.index || outdated(err) != c.outdated {
			t.Errorf("%s: operation %d, outdated %v: %v; want operation %d, outdated %v", c.name, index,
				outdated(err), err, c.index, c.outdated)
		}
		if outdated(fmt.Errorf("%w: %w", errDisconnected, err)) {
			t.Errorf("%s: a lost connection is no refusal", c.name)
		}
	}
}

// The text of an error may quote what users wrote. Only the server's own class of the error counts.
func TestTextInARefusalIsNoClass(t *testing.T) {
	op := []ovsdb.Operation{{Op: ovsdb.OperationInsert}}
	for _, details := range []string{"duplicate uuid", "referential integrity violation"} {
		_, err := refusal([]ovsdb.OperationResult{{Error: "constraint violation", Details: "name is " + details}}, op)
		var constraint *ovsdb.ConstraintViolation
		if !errors.As(err, &constraint) || outdated(err) {
			t.Errorf("%v is taken for another", err)
		}
	}
}
