package unixctl_test

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weft-network/weft/pkg/ovn/unixctl"
	"github.com/weft-network/weft/pkg/ovndb/ovndbtest"
)

func TestARealDaemonAnswers(t *testing.T) {
	server := ovndbtest.Start(t, "ovn-nb")
	server.Ctl("init") // a reply means that the start is complete: the control socket appears after the database's
	c, err := unixctl.Dial(t.Context(), filepath.Join(filepath.Dir(strings.TrimPrefix(server.Endpoint(), "unix:")), "ctl"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if version, err := c.Call(t.Context(), "version"); err != nil || !strings.HasPrefix(version, "ovsdb-server ") {
		t.Errorf("version is %q, %v", version, err)
	}
	if _, err := c.Call(t.Context(), "ovsdb-server/remove-db", "Nonesuch"); err == nil ||
		!strings.Contains(err.Error(), "Failed to find the database") {
		t.Errorf("removing a database that is not there: %v, want the server's words", err)
	}
	if list, err := c.Call(t.Context(), "ovsdb-server/list-dbs"); err != nil || !strings.Contains(list, "OVN_Northbound") {
		t.Errorf("after a refusal the next command gives %q, %v", list, err)
	}
	ended := make(chan error, 1)
	go func() { ended <- c.AwaitEnd() }()
	server.Kill()
	if err := <-ended; !errors.Is(err, io.EOF) {
		t.Errorf("the error after the daemon's end is %v", err)
	}
}

// A daemon that hangs must not block its caller.
func TestSilenceEndsWithTheContext(t *testing.T) {
	dir, err := os.MkdirTemp("", "weft-unixctl-") // a unix socket's path has at most 107 bytes
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	listener, err := net.Listen("unix", filepath.Join(dir, "ctl"))
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	ctx, cancel := context.WithCancelCause(t.Context())
	gaveUp := errors.New("gave up")
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		_, _ = conn.Read(make([]byte, 1))
		cancel(gaveUp)
		_, _ = io.Copy(io.Discard, conn)
	}()
	if _, err := unixctl.Call(ctx, filepath.Join(dir, "ctl"), "version"); !errors.Is(err, gaveUp) {
		t.Errorf("a silent daemon: %v", err)
	}
}

func TestSocketIsFoundByThePidFile(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "ovn-northd.pid"), []byte("17\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := unixctl.Socket(dir, "ovn-northd"); err != nil || got != filepath.Join(dir, "ovn-northd.17.ctl") {
		t.Errorf("the socket is %s, %v", got, err)
	}
	if _, err := unixctl.Socket(dir, "ovn-controller"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without a pid file: %v", err)
	}
}
