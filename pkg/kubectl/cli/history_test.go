package cli

import (
	"encoding/json"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weft-network/weft/pkg/ovndb/history"
	"github.com/weft-network/weft/pkg/process/admin"
	"github.com/weft-network/weft/pkg/unit"
)

func TestObjectsOfAHistory(t *testing.T) {
	for text, want := range map[string]unit.Key{
		"": "", "web": "pod/here/web", "pod/web": "pod/here/web", "po/demo/web": "pod/demo/web", "svc/demo/web": "service/demo/web",
		"NetworkPolicy/demo/deny": "networkpolicy/demo/deny", "netpol/deny": "networkpolicy/here/deny", "node/n1": "node/n1",
		"banp/default": "baselineadminnetworkpolicy/default", "podgroup/5f": "podgroup/5f", "egressips/e": "egressip/e",
	} {
		if got, err := objectKey(text, "here"); err != nil || got != want {
			t.Errorf("%q is %q, %v; want %q", text, got, err, want)
		}
	}
	for _, text := range []string{"/", "pod/", "pod//web"} {
		if key, err := objectKey(text, "here"); err == nil {
			t.Errorf("%q is %q", text, key)
		}
	}
}

// A history with the operator's transactions, their repairs and other hands, as a person reads it.
func TestHistoryText(t *testing.T) {
	since := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	port := history.Change{Owner: "pod/demo/web-0", Op: "insert", Table: "Logical_Switch_Port", UUID: "u1", Name: "demo_web-0",
		Columns: []history.Column{{Column: "addresses", After: "0a:58 10.244.0.3"}, {Column: "name", After: "demo_web-0"}}}
	spoiled := port
	spoiled.Op, spoiled.Columns = "update", []history.Column{{Column: "addresses", Before: "0a:58 10.244.0.3", After: "router"}}
	mended := spoiled
	mended.Columns = []history.Column{{Column: "addresses", Before: "router", After: "0a:58 10.244.0.3"}}
	cause := history.Cause{Unit: "pod/demo/web-0", Object: "pod/demo/web-0", Reconciler: "pod"}
	repair := cause
	repair.Repair = true
	h := admin.History{Since: since, Writer: "weft v1.2.3", Entries: []history.Entry{
		{Time: since.Add(time.Second), By: history.ByWeft, State: history.StateCommitted, Causes: []history.Cause{cause},
			Changes: []history.Change{port, {Owner: "pod/demo/web-0", Holder: "node/n1", Op: "add", Table: "Logical_Switch", UUID: "u2", Name: "n1",
				Columns: []history.Column{{Column: "ports", After: "u1"}}}}},
		{Time: since.Add(time.Minute), By: history.ByOther, State: "Repaired", Changes: []history.Change{spoiled}},
		{Time: since.Add(time.Minute), By: history.ByWeft, State: history.StateCommitted, Causes: []history.Cause{repair},
			Changes: []history.Change{mended}, Omitted: 2},
		{Time: since.Add(time.Hour), By: history.ByOther, State: history.StateSeen, Changes: []history.Change{
			{Op: "delete", Table: "Logical_Switch", UUID: "u3", Name: "theirs"}}},
	}}
	const file = "testdata/history.txt"
	got := recordText(h, "pod/demo/web-0")
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := recordText(admin.History{Since: since, Writer: "weft v1.2.3"}, "node/n1"); got !=
		"Changes of node/n1: none. Recorded since 2026-01-02 03:04:05.000 by weft v1.2.3.\n" {
		t.Errorf("without a change: %q", got)
	}
}

// The command sends the object's key, and prints the operator's answer.
func TestHistoryOfAnObject(t *testing.T) {
	answer, err := json.Marshal(admin.History{Since: time.Unix(1900000000, 0), Writer: "weft v1.2.3"})
	if err != nil {
		t.Fatal(err)
	}
	server := &apiServer{T: t, answer: string(answer)}
	const want = "Changes of pod/demo/web: none. Recorded since 2030-03-17 17:46:40.000 by weft v1.2.3.\n"
	if code, out, errs := server.run("history", "pod/demo/web"); code != exitOK || out != want || errs != "" {
		t.Errorf("exit code %d, %q, %q", code, out, errs)
	}
	for _, wrong := range [][]string{{"history", "a", "b"}, {"history", "pod//b"}, {"history", "--limit=0"}, {"history", "-o", "yaml"}} {
		if code, out, errs := server.run(wrong...); code != exitError || out != "" || errs == "" {
			t.Errorf("%v: exit code %d, %q, %q", wrong, code, out, errs)
		}
	}
}
