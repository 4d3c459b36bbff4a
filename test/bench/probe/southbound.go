package probe

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Southbound is a connection to a southbound database.
type Southbound struct {
	*Conn
	Endpoint string
}

// DialSouthbound connects.
func DialSouthbound(endpoint string) (*Southbound, error) {
	conn, err := Dial(endpoint, nil)
	return &Southbound{Conn: conn, Endpoint: endpoint}, err
}

// Transact commits operations. It returns an error if one of them fails.
func (r *Conn) Transact(database string, operations ...any) (json.RawMessage, error) {
	answer, err := r.Call("transact", append([]any{database}, operations...)...)
	if err != nil {
		return nil, err
	}
	var results []struct {
		Error, Details string
	}
	if err := json.Unmarshal(answer, &results); err != nil {
		return nil, err
	}
	for _, result := range results {
		if result.Error != "" {
			return nil, errors.New(result.Error + ": " + result.Details)
		}
	}
	return answer, nil
}

// Select reads columns of the rows that match every condition.
func (r *Conn) Select(database, table string, where []any, columns ...string) ([]map[string]any, error) {
	answer, err := r.Transact(database, map[string]any{"op": "select", "table": table, "where": where, "columns": columns})
	if err != nil {
		return nil, err
	}
	var results []struct{ Rows []map[string]any }
	err = json.Unmarshal(answer, &results)
	if err == nil && len(results) != 1 {
		err = fmt.Errorf("%s: %d results", table, len(results))
	}
	if err != nil {
		return nil, err
	}
	return results[0].Rows, nil
}

const southbound = "OVN_Southbound"

// Rows counts a table's rows.
func (s *Southbound) Rows(table string) (int, error) {
	rows, err := s.Select(southbound, table, []any{}, "_uuid")
	return len(rows), err
}

// HasChassis reports whether a node has a chassis.
func (s *Southbound) HasChassis(name string) (bool, error) {
	rows, err := s.Select(southbound, "Chassis", []any{is("name", name)}, "_uuid")
	return len(rows) > 0, err
}

// Chassis is a node in the southbound database.
type Chassis struct{ Name, Address string }

// Register creates chassis with their tunnels in one transaction, as ovn-controllers do.
func (s *Southbound) Register(all ...Chassis) error {
	var operations []any
	for i, c := range all {
		encap, chassis := fmt.Sprintf("encap%d", i), fmt.Sprintf("chassis%d", i)
		config := []any{}
		for _, feature := range []string{"port-up-notif", "ct-no-masked-label", "ovn-ct-lb-related",
			"mac-binding-timestamp", "fdb-timestamp", "ls-dpg-column", "ct-commit-nat-v2", "ct-commit-to-zone",
			"ct-next-zone", "ovn-monitor-all"} {
			config = append(config, []any{feature, "true"})
		}
		for _, key := range []string{"is-interconn", "is-remote"} {
			config = append(config, []any{key, "false"})
		}
		operations = append(operations,
			map[string]any{"op": "insert", "table": "Encap", "uuid-name": encap,
				"row": map[string]any{"type": "geneve", "ip": c.Address, "chassis_name": c.Name}},
			map[string]any{"op": "insert", "table": "Chassis", "uuid-name": chassis,
				"row": map[string]any{"name": c.Name, "hostname": c.Name, "encaps": []any{"named-uuid", encap},
					"other_config": []any{"map", config}}},
			map[string]any{"op": "insert", "table": "Chassis_Private",
				"row": map[string]any{"name": c.Name, "chassis": []any{"named-uuid", chassis}}})
	}
	_, err := s.Transact(southbound, operations...)
	return err
}

// Claim marks every requested port as claimed by its chassis and up, as ovn-controllers do. With a limit other than
// 0, it marks at most limit ports.
func (s *Southbound) Claim(limit int) (int, error) {
	const group = 100
	rows, err := s.Select(southbound, "Port_Binding", []any{[]any{"type", "==", ""}, []any{"up", "!=", true}},
		"_uuid", "requested_chassis")
	if err != nil {
		return 0, err
	}
	var operations []any
	claimed := 0
	rows = slices.DeleteFunc(rows, func(r map[string]any) bool {
		reference, ok := r["requested_chassis"].([]any)
		return !ok || len(reference) != 2 || reference[0] != "uuid"
	})
	if limit > 0 {
		rows = rows[:min(limit, len(rows))]
	}
	for i, r := range rows {
		operations = append(operations, map[string]any{"op": "update", "table": "Port_Binding",
			"where": []any{is("_uuid", r["_uuid"])}, "row": map[string]any{"chassis": r["requested_chassis"],
				"up": true}})
		claimed++
		if len(operations) == group || i == len(rows)-1 {
			if _, err := s.Transact(southbound, operations...); err != nil {
				return claimed, err
			}
			operations = nil
		}
	}
	return claimed, nil
}

// Local returns what an ovn-controller on the chassis needs: the datapaths connected by patch ports, without the
// gateways of other nodes, whose ports are bound to other chassis.
func (s *Southbound) Local(node, chassis string) (Local, error) {
	found := Local{Chassis: chassis, Datapaths: map[int]string{}}
	rows, err := s.Select(southbound, "Chassis", []any{is("name", chassis)}, "_uuid")
	if err != nil || len(rows) != 1 {
		return found, errors.Join(err, fmt.Errorf("%d chassis are named %s", len(rows), chassis))
	}
	found.ChassisUUID = uuidOf(rows[0])
	datapaths, err := s.Select(southbound, "Datapath_Binding", []any{}, "_uuid", "tunnel_key", "external_ids")
	for _, d := range datapaths {
		name, key := nameIn(d["external_ids"]), 0
		if number, ok := d["tunnel_key"].(float64); ok {
			key = int(number)
		}
		of, gateway := strings.CutPrefix(name, "GR_")
		if !gateway {
			of, gateway = strings.CutPrefix(name, "ext_")
		}
		if !gateway || of == node {
			found.Datapaths[key] = uuidOf(d)
		}
	}
	return found, err
}

func uuidOf(row map[string]any) string {
	reference, _ := row["_uuid"].([]any)
	if len(reference) != 2 {
		return ""
	}
	text, _ := reference[1].(string)
	return text
}

// nameIn returns the value of "name" in a map.
func nameIn(column any) string {
	parts, _ := column.([]any)
	if len(parts) != 2 {
		return ""
	}
	pairs, _ := parts[1].([]any)
	for _, p := range pairs {
		if kv, ok := p.([]any); ok && len(kv) == 2 && kv[0] == "name" {
			text, _ := kv[1].(string)
			return text
		}
	}
	return ""
}
