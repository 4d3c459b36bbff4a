package daemon

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-logr/logr"
)

// fakeControl answers one request, as ovn-controller's control socket does.
func fakeControl(t *testing.T, dir, pid string) (end func()) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, "ovn-controller.pid"), []byte(pid+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("unix", filepath.Join(dir, "ovn-controller."+pid+".ctl"))
	if err != nil {
		t.Fatal(err)
	}
	accepted := make(chan net.Conn, 1)
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		_, _ = conn.Read(make([]byte, 100))
		_, _ = conn.Write([]byte(`{"error":null,"id":0,"result":"ovn-controller 25.03.0\nOpen vSwitch Library 3.5.0\n"}`))
		accepted <- conn
	}()
	return func() {
		listener.Close()
		(<-accepted).Close()
	}
}

func TestADaemonIsWatched(t *testing.T) {
	dir, err := os.MkdirTemp("", "weft-ovn-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	changed := make(chan struct{}, 10)
	c := &Daemon{Program: "ovn-controller", Dir: dir, Log: logr.Discard(), Changed: func() { changed <- struct{}{} }}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }()
	if _, err := c.State(); err == nil {
		t.Error("State succeeds before the daemon runs")
	}
	for _, pid := range []string{"17", "18"} { // the daemon restarts with another PID
		end := fakeControl(t, dir, pid)
		<-changed
		if version, err := c.State(); err != nil || version != "25.03.0" {
			t.Errorf("pid %s: version %q, %v", pid, version, err)
		}
		end()
		<-changed
		if _, err := c.State(); err == nil {
			t.Errorf("PID %s: State succeeds after the daemon ended", pid)
		}
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
