package peer

import (
	"net"
	"os"
	"path/filepath"
	"testing"
)

func TestPID(t *testing.T) {
	listener, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	conn, err := net.Dial("unix", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if pid, err := PID(conn.(*net.UnixConn)); err != nil || pid != os.Getpid() {
		t.Errorf("process %d, %v; this is %d", pid, err, os.Getpid())
	}
}
