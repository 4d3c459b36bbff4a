package histories

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/google/uuid"

	"github.com/weft-network/weft/pkg/ovn/names"
	"github.com/weft-network/weft/pkg/unit"
)

// aSwitch is a Weft switch with one port.
func aSwitch(name, port string) row {
	return row{
		"name":         json.RawMessage(fmt.Sprintf("%q", name)),
		"external_ids": json.RawMessage(fmt.Sprintf(`["map",[[%q,"network/default"]]]`, unit.OwnerKey)),
		"ports":        json.RawMessage(fmt.Sprintf(`["uuid",%q]`, port)),
	}
}

// A copy of the join switch is deleted whatever names the two have, so no foreign port may be put on it.
func TestACopyOfTheJoinSwitchIsNotTheJoinSwitch(t *testing.T) {
	id, copied := unit.UUID("Logical_Switch", names.JoinSwitch), uuid.NewString()
	for _, name := range []string{names.JoinSwitch, "renamed"} {
		rows := database{"Logical_Switch": {id: aSwitch(name, "p"), copied: aSwitch(names.JoinSwitch, "q")}}
		w := &world{nil, &site{mirror: &mirror{rows: rows}}}
		if got, ok := w.joinSwitch(); !ok || got != id {
			t.Errorf("with the name %s the join switch is %s %t, want %s", name, got, ok, id)
		}
		delete(w.mirror.rows["Logical_Switch"], id)
		if got, ok := w.joinSwitch(); ok {
			t.Errorf("the copy %s counts as the join switch", got)
		}
	}
}

// Only the foreign ports on a deleted switch are deleted with it, even if it was renamed before (seed 502646).
func TestForeignPortsGoWithTheirSwitch(t *testing.T) {
	f := foreignRows{"Logical_Switch_Port": {"p": {}, "q": {}}}
	f.dropPorts(aSwitch("renamed", "p"))
	if ports := f["Logical_Switch_Port"]; len(ports) != 1 || ports["q"] == nil {
		t.Errorf("the foreign ports are %v, want q", ports)
	}
}
