package rebuild

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weft-network/weft/pkg/install/beside"

	"go.uber.org/goleak"

	"github.com/weft-network/weft/pkg/ovn/unixctl"
	"github.com/weft-network/weft/pkg/ovn/wire"
	"github.com/weft-network/weft/pkg/ovndb/ovndbtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// shortDir creates a folder whose path leaves room for the name of a socket.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "weft-run-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// supervised is an ovsdb-server that gets its database by --config-file, as in containers. A supervisor restarts the
// server whenever it ends.
type supervised struct {
	dir, file string
	ended     chan struct{}
}

func (s *supervised) remote() string  { return "unix:" + filepath.Join(s.dir, "db.sock") }
func (s *supervised) control() string { return filepath.Join(s.dir, "db.ctl") }

// startSupervised starts a server with an empty database. It is restarted at most restarts times.
func startSupervised(t *testing.T, schema string, restarts int) *supervised {
	t.Helper()
	s := &supervised{dir: shortDir(t), ended: make(chan struct{})}
	s.file = filepath.Join(s.dir, "db.file")
	ovndbtest.Command(t, "ovsdb-tool", "create", s.file, ovndbtest.SchemaFile(t, schema))
	config := filepath.Join(s.dir, "config.json")
	text := `{"remotes":{"p` + s.remote() + `":{}},"databases":{"` + s.file + `":{}}}`
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	program := ovndbtest.Binary(t, "ovsdb-server")
	go func() {
		defer close(s.ended)
		for range restarts + 1 {
			cmd := exec.CommandContext(ctx, program, "-vconsole:off", "-vsyslog:off", "--config-file="+config, "--unixctl="+s.control())
			_ = cmd.Run() // the exit code does not matter
			if ctx.Err() != nil {
				return
			}
		}
	}()
	t.Cleanup(func() { cancel(); <-s.ended })
	s.await(t)
	return s
}

// await returns when the server answers.
func (s *supervised) await(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		if _, err := unixctl.Call(ctx, s.control(), "version"); err == nil {
			return
		} else if ctx.Err() != nil {
			t.Fatal(err)
		}
	}
}

// programs returns the cached programs.
func programs(t *testing.T) beside.Programs {
	return beside.Programs{
		OVSDBServer: ovndbtest.Binary(t, "ovsdb-server"),
		OVSDBTool:   ovndbtest.Binary(t, "ovsdb-tool"),
		Northd:      ovndbtest.Binary(t, "ovn-northd"),
	}
}

// freshFile creates a southbound database with a global row, and returns its file and the row's UUID.
func freshFile(t *testing.T, dir string) (file, global string) {
	t.Helper()
	file = filepath.Join(dir, "fresh.file")
	s, err := beside.StartServer(t.Context(), programs(t), shortDir(t), "sb", file, ovndbtest.SchemaFile(t, "ovn-sb"))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Stop()
	d, err := wire.Dial(t.Context(), s.Remote, wire.Southbound)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if _, err := d.Transact(t.Context(), wire.Insert("SB_Global", "", wire.Row{"nb_cfg": 42})); err != nil {
		t.Fatal(err)
	}
	made, err := d.Snapshot(t.Context(), "SB_Global")
	if err != nil {
		t.Fatal(err)
	}
	return file, made["SB_Global"][0].UUID()
}

// number returns nb_cfg of the global row.
func number(t *testing.T, remote string) string {
	t.Helper()
	return strings.TrimSpace(ovndbtest.Command(t, "ovn-sbctl", "--timeout=10", "--no-leader-only", "--db="+remote,
		"--bare", "--columns=nb_cfg", "list", "SB_Global"))
}
