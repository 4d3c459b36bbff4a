package rebuild

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/weft-network/weft/pkg/ovn/wire"
	"github.com/weft-network/weft/pkg/unit"
)

// table decodes rows from wire format.
func table(t *testing.T, rows ...string) []wire.Row {
	t.Helper()
	var all []wire.Row
	for _, text := range rows {
		var r wire.Row
		if err := json.Unmarshal([]byte(text), &r); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		all = append(all, r)
	}
	return all
}

func TestForeignRowsAreNamed(t *testing.T) {
	all := wire.Snapshot{
		"NB_Global": table(t, `{"name":""}`),
		"Logical_Switch": table(t, `{"name":"n1","external_ids":["map",[["weft.dev/unit","node/n1"]]]}`,
			`{"name":"theirs","external_ids":["map",[["neutron:x","y"]]]}`),
		"Load_Balancer_Group": table(t,
			`{"name":"clusterLBGroup","_uuid":["uuid","`+unit.UUID("Load_Balancer_Group", "clusterLBGroup")+`"]}`,
			`{"name":"theirGroup","_uuid":["uuid","`+unit.UUID("Load_Balancer_Group", "clusterLBGroup")+`"]}`),
		"Load_Balancer_Health_Check": table(t, `{"vip":"192.0.2.1:80"}`),
	}
	got := foreign(all)
	slices.Sort(got)
	want := []string{"Load_Balancer_Group theirGroup", "Load_Balancer_Health_Check", "Logical_Switch theirs"}
	if !slices.Equal(got, want) {
		t.Errorf("foreign rows: %q, want %q", got, want)
	}
}

func TestPartialMonitorsAreRefused(t *testing.T) {
	chassis := table(t, `{"name":"n1","other_config":["map",[["ovn-monitor-all","true"]]]}`, `{"name":"n2","other_config":["map",[]]}`)
	if err := monitorAll(chassis[:1]); err != nil {
		t.Error(err)
	}
	if err := monitorAll(chassis); err == nil || !strings.Contains(err.Error(), "n2") || strings.Contains(err.Error(), "n1,") {
		t.Errorf("a chassis with conditional monitoring: %v", err)
	}
}
