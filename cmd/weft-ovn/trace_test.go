package main

import (
	"bytes"
	"encoding/json"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weft-network/weft/pkg/ovndb/ovndbtest"
	"github.com/weft-network/weft/pkg/trace"
)

// A request with changes is answered as if the database had them. The live databases and the folder stay as they were.
func TestTraceWithChanges(t *testing.T) {
	central := ovndbtest.StartCentral(t)
	central.NB.Ctl("ls-add", "n1", "--", "lsp-add", "n1", "p1", "--", "lsp-set-addresses", "p1", "0a:00:00:00:00:01 10.0.0.1",
		"--", "lsp-add", "n1", "p2", "--", "lsp-set-addresses", "p2", "0a:00:00:00:00:02 10.0.0.2")
	central.Sync()
	run, err := os.MkdirTemp("", "weft-run-") // t.TempDir is too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(run) })
	for name, server := range map[string]*ovndbtest.Server{"ovnnb_db.sock": central.NB, "ovnsb_db.sock": central.SB} {
		if err := os.Symlink(strings.TrimPrefix(server.Endpoint(), "unix:"), filepath.Join(run, name)); err != nil {
			t.Fatal(err)
		}
	}
	const acl = "11111111-2222-4333-8444-555555555555"
	drop := []json.RawMessage{
		[]byte(`{"op":"insert","table":"ACL","uuid":"` + acl + `","row":` +
			`{"action":"drop","direction":"to-lport","priority":1001,"match":"ip4"}}`),
		[]byte(`{"op":"mutate","table":"Logical_Switch","where":[],"mutations":[["acls","insert",["uuid","` + acl + `"]]]}`),
	}
	request := trace.Request{Packets: []trace.Packet{{Inport: "p1", From: "p1", To: "p2", Protocol: trace.TCP,
		SourcePort: 1, DestinationPort: 80, Source: netip.MustParseAddr("10.0.0.1"), Destination: netip.MustParseAddr("10.0.0.2")}}}
	before := central.NB.Transactions()
	for _, c := range []struct {
		name    string
		changes []json.RawMessage
		arrives bool
	}{{"as it is", nil, true}, {"with the changes", drop, false}, {"afterwards", nil, true}} {
		request.Changes = c.changes
		text, err := json.Marshal(request)
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		args := []string{"--run-dir=" + run, "--ovn-trace=" + ovndbtest.Binary(t, "ovn-trace"),
			"--ovsdb-server=" + ovndbtest.Binary(t, "ovsdb-server"), "--ovsdb-tool=" + ovndbtest.Binary(t, "ovsdb-tool"),
			"--ovn-northd=" + ovndbtest.Binary(t, "ovn-northd")}
		if err := traceCommand(t.Context(), args, bytes.NewReader(text), &out); err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		var answer trace.Answer
		if err := json.Unmarshal(out.Bytes(), &answer); err != nil {
			t.Fatal(err)
		}
		if arrives := strings.Contains(answer.Traces[0].Text, `/* output to "p2"`); arrives != c.arrives {
			t.Errorf("%s the packet arrives: %t\n%s", c.name, arrives, answer.Traces[0].Text)
		}
	}
	if n := central.NB.Transactions() - before; n != 0 {
		t.Errorf("%d transactions in the live database", n)
	}
	entries, err := os.ReadDir(run)
	if err != nil || len(entries) != 3 { // the sockets and the lock
		t.Errorf("left in the folder: %v, %v", entries, err)
	}
}
