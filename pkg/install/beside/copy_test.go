package beside

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/weft-network/weft/pkg/ovn/wire"
	"github.com/weft-network/weft/pkg/ovndb/ovndbtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// source returns the databases and a folder for a copy.
func source(t *testing.T, central *ovndbtest.Central) Source {
	dir, err := os.MkdirTemp("", "weft-run-") // t.TempDir is too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return Source{NB: central.NB.Endpoint(), SB: central.SB.Endpoint(), RunDir: dir, Memory: 1 << 30, Programs: Programs{
		OVSDBServer: ovndbtest.Binary(t, "ovsdb-server"), OVSDBTool: ovndbtest.Binary(t, "ovsdb-tool"),
		Northd: ovndbtest.Binary(t, "ovn-northd")}}
}

// left fails the test if a folder has anything but the lock.
func (s Source) left(t *testing.T) {
	t.Helper()
	entries, err := os.ReadDir(s.RunDir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.Name() != "weft-copy.lock" {
			t.Errorf("%s is left", e.Name())
		}
	}
}

// A copy has the rows, chassis and bindings of the live databases, and the changes. The live databases do not change.
func TestCopy(t *testing.T) {
	central := ovndbtest.StartCentral(t)
	central.NB.Ctl("ls-add", "n1", "--", "lsp-add", "n1", "p1")
	central.Sync()
	central.SB.Ctl("chassis-add", "c1", "geneve", "192.0.2.1")
	central.SB.Ctl("lsp-bind", "p1", "c1")
	s := source(t, central)
	if err := os.Mkdir(filepath.Join(s.RunDir, ".weft-copy"), 0o700); err != nil { // of a process that was killed
		t.Fatal(err)
	}
	before := central.SB.Transactions()
	c, err := StartCopy(t.Context(), s, wire.Insert("Logical_Switch", "", wire.Row{"name": "n2"}))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Stop()
	_, socket := c.Sockets()
	for command, want := range map[string]string{
		"--bare --columns=external_ids list Datapath_Binding":    "name=n2",
		"--bare --columns=name list Chassis":                     "c1",
		"--bare --columns=mac,logical_port,up list Port_Binding": "p1",
	} {
		args := append([]string{"--no-leader-only", "--db=unix:" + socket}, strings.Fields(command)...)
		if out := ovndbtest.Command(t, "ovn-sbctl", args...); !strings.Contains(out, want) {
			t.Errorf("ovn-sbctl %s of the copy: %q, want %s", command, out, want)
		}
	}
	bound, err := c.sb.Snapshot(t.Context(), "Port_Binding")
	if err != nil || bound["Port_Binding"][0].Reference("chassis") == "" {
		t.Errorf("bindings of the copy: %v, %v", bound, err)
	}
	if out := central.NB.Ctl("ls-list"); strings.Contains(out, "n2") {
		t.Error("the live northbound database has the change")
	}
	if n := central.SB.Transactions() - before; n != 0 {
		t.Errorf("%d transactions in the live southbound database", n)
	}
	if _, err := StartCopy(t.Context(), s); err == nil || !strings.Contains(err.Error(), "another copy") {
		t.Errorf("a second copy: %v", err)
	}
	if _, err := os.Stat(socket); err != nil {
		t.Errorf("the second copy took the folder of the first: %v", err)
	}
	c.Stop()
	s.left(t)
}

// A copy that fails, or is cancelled, leaves nothing behind.
func TestCopyThatFails(t *testing.T) {
	central := ovndbtest.StartCentral(t)
	central.NB.Ctl("ls-add", "n1")
	central.Sync()
	s := source(t, central)
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	little := s
	little.Memory = 1 << 20
	for _, c := range []struct {
		name   string
		ctx    context.Context
		source Source
		change wire.Operation
		says   string
	}{
		{"a change that the database refuses", t.Context(), s,
			wire.Insert("Logical_Switch", "", wire.Row{"nme": "n2"}), "cannot apply the changes"},
		{"a cancelled request", cancelled, s, wire.Insert("Logical_Switch", "", wire.Row{"name": "n2"}), "cancel"},
		{"too little memory", t.Context(), little, wire.Insert("Logical_Switch", "", wire.Row{"name": "n2"}), "northd"},
	} {
		started, err := StartCopy(c.ctx, c.source, c.change)
		if err == nil {
			started.Stop()
		}
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want an error that says %q", c.name, err, c.says)
		}
		s.left(t)
	}
}
