package probe

import (
	"strings"
	"testing"
	"time"

	"github.com/weft-network/weft/pkg/ovndb/ovndbtest"
	"github.com/weft-network/weft/test/poll"
)

func TestMessagesAreCut(t *testing.T) {
	long := `{"result":{"a":"` + strings.Repeat(`}\"{\\`, 100) + `"},"error":null,"id":1}`
	text := long + "\n" + `{"method":"echo","id":"echo","params":[]}` + ` {"id":null,"params":["{"],"method":"update3"}` + `{"unfinished":`
	for _, chunk := range []int{1, 7, len(text)} {
		var found []ends
		s := messages{whole: func(m ends) { found = append(found, m) }}
		for rest := text; rest != ""; {
			n := min(chunk, len(rest))
			s.take([]byte(rest[:n]))
			rest = rest[n:]
		}
		if len(found) != 3 {
			t.Fatalf("in pieces of %d: %d messages, want 3", chunk, len(found))
		}
		if found[0].size != int64(len(long)) || !found[0].has(`"error":null`) || !found[0].has(`{"result"`) {
			t.Errorf("in pieces of %d: the first has %d bytes, want %d; ends %q, %q", chunk, found[0].size, len(long),
				found[0].first, found[0].last)
		}
		if !found[1].has(`"method":"echo"`) || !found[2].has(`"method":"update3"`) || found[2].has(`echo`) {
			t.Errorf("in pieces of %d: %q, %q", chunk, found[1].first, found[2].first)
		}
	}
}

// TestMonitors checks that a real server accepts each kind of monitor with its tables, columns and conditions.
func TestMonitors(t *testing.T) {
	central := ovndbtest.StartCentral(t)
	central.NB.Ctl("ls-add", "n1", "--", "ls-add", "ext_n2", "--", "lsp-add", "n1", "p1", "--", "lsp-set-options",
		"p1", "requested-chassis=c1")
	sb, err := DialSouthbound(central.SB.Endpoint())
	if err != nil {
		t.Fatal(err)
	}
	defer sb.Close()
	if err := sb.Register(Chassis{Name: "c1", Address: "192.0.2.1"}); err != nil {
		t.Fatal(err)
	}
	central.Sync()
	if n, err := sb.Claim(0); err != nil || n != 1 {
		t.Errorf("%d ports are claimed, %v; want 1", n, err)
	}
	local, err := sb.Local("n1", "c1")
	if err != nil || local.ChassisUUID == "" || len(local.Datapaths) != 1 {
		t.Fatalf("%+v, %v; want a chassis and the switch n1", local, err)
	}
	all, err := Controller(nil)
	if err != nil {
		t.Fatal(err)
	}
	some, err := Controller(Some(local))
	if err != nil {
		t.Fatal(err)
	}
	whole := map[string]int64{}
	up := true // as Claim wrote
	for name, monitor := range map[string]Monitor{"all": all, "some": some, "node": Node("c1")} {
		agent, err := Connect(sb.Endpoint, monitor)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		defer agent.Close()
		whole[name], up = agent.Whole, !up
		if _, err := sb.Transact(southbound, map[string]any{"op": "update", "table": "Port_Binding",
			"where": []any{is("logical_port", "p1")}, "row": map[string]any{"up": up}}); err != nil {
			t.Fatal(err)
		}
		poll.Eventually(t, 20*time.Second, poll.True(name+": received an update of its port", func() bool {
			n, bytes := agent.Updates()
			return n > 0 && bytes > 0
		}))
	}
	if whole["all"] <= whole["some"] || whole["some"] <= whole["node"] {
		t.Errorf("first copies have %v bytes; want all > some > node", whole)
	}
	if _, err := Connect(sb.Endpoint, Monitor{"No_Such_Table": []any{}}); err == nil {
		t.Error("a missing table is accepted")
	}
}
