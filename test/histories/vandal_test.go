package histories

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/google/uuid"

	"github.com/weft-network/weft/pkg/names"
	"github.com/weft-network/weft/pkg/unit"
)

// aSwitch is a switch of ours with one port.
func aSwitch(name, port string) row {
	return row{
		"name":         json.RawMessage(fmt.Sprintf("%q", name)),
		"external_ids": json.RawMessage(fmt.Sprintf(`["map",[[%q,"network/default"]]]`, unit.OwnerKey)),
		"ports":        json.RawMessage(fmt.Sprintf(`["uuid",%q]`, port)),
	}
}

// A copy of the join switch goes, whatever the names of the two are by then: no foreign port is put on it.
func TestACopyOfTheJoinSwitchIsNotTheJoinSwitch(t *testing.T) {
	id, copied := unit.UUID("Logical_Switch", names.JoinSwitch), uuid.NewString()
	for _, name := range []string{names.JoinSwitch, "renamed"} {
		w := &world{mirror: &mirror{rows: database{"Logical_Switch": {id: aSwitch(name, "p"), copied: aSwitch(names.JoinSwitch, "q")}}}}
		if got, ok := w.joinSwitch(); !ok || got != id {
			t.Errorf("with the name %s the join switch is %s %t, want %s", name, got, ok, id)
		}
		delete(w.mirror.rows["Logical_Switch"], id)
		if got, ok := w.joinSwitch(); ok {
			t.Errorf("the copy %s is taken for the join switch", got)
		}
	}
}

// Foreign ports go with the switch that they are on (502646: it was renamed before it was deleted), and no others.
func TestForeignPortsGoWithTheirSwitch(t *testing.T) {
	f := foreignRows{"Logical_Switch_Port": {"p": {}, "q": {}}}
	f.dropPorts(aSwitch("renamed", "p"))
	if ports := f["Logical_Switch_Port"]; len(ports) != 1 || ports["q"] == nil {
		t.Errorf("the foreign ports are %v, want q", ports)
	}
}
