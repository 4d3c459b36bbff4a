package initd

import (
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weft-network/weft/test/poll"
)

// testMachine runs daemons without their own root. Its reaper reaps all children of this test process.
func testMachine(t *testing.T) *machine {
	t.Helper()
	childEnded := make(chan os.Signal, 16)
	signal.Notify(childEnded, syscall.SIGCHLD)
	t.Cleanup(func() { signal.Stop(childEnded) })
	m := &machine{spec: Spec{Hostname: "t", LogDir: t.TempDir(), Env: []string{"PATH=/usr/bin:/bin"}},
		reaper: newReaper(), daemons: map[string]*daemon{}, booted: make(chan struct{})}
	go m.reaper.serve(childEnded)
	return m
}

func await(t *testing.T, what string, done func() bool) {
	t.Helper()
	poll.Eventually(t, time.Minute, poll.True(what, done))
}

func TestDaemonStartsAgainUntilItIsStopped(t *testing.T) {
	m := testMachine(t)
	if err := m.run(Step{Name: "d", Daemon: true, Argv: []string{"/bin/sleep", "60"}}); err != nil {
		t.Fatal(err)
	}
	d, err := m.daemon("d")
	if err != nil {
		t.Fatal(err)
	}
	await(t, "first start", func() bool { return d.status().PID != 0 })
	if err := d.signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	await(t, "second start", func() bool { s := d.status(); return s.PID != 0 && s.Starts == 2 })
	if err := d.want(false, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	await(t, "stop", func() bool { return d.status().PID == 0 })
	if err := d.want(true, 0); err != nil {
		t.Fatal(err)
	}
	await(t, "start after the stop", func() bool { s := d.status(); return s.PID != 0 && s.Starts == 3 })
	if err := d.want(false, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	await(t, "end", func() bool { return d.status().PID == 0 })
	log, err := os.ReadFile(filepath.Join(m.spec.LogDir, "d.log"))
	if err != nil || !strings.Contains(string(log), "ended: signal killed") {
		t.Errorf("log: %v\n%s", err, log)
	}
}

func TestCommandThatFailsEndsTheBoot(t *testing.T) {
	m := testMachine(t)
	if err := m.run(Step{Name: "good", Argv: []string{"/bin/true"}}); err != nil {
		t.Error(err)
	}
	if err := m.run(Step{Name: "bad", Argv: []string{"/bin/sh", "-c", "exit 3"}}); err == nil ||
		!strings.Contains(err.Error(), "exit status 3") {
		t.Errorf("error: %v", err)
	}
	if err := m.run(Step{Name: "skipped", Argv: []string{"/bin/false"}, Unless: m.spec.LogDir}); err != nil {
		t.Errorf("a step ran although its file exists: %v", err)
	}
}

func TestReadyWaitsForTheSocket(t *testing.T) {
	listener, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	if err := awaitReady("unix:" + listener.Addr().String()); err != nil {
		t.Error(err)
	}
	if err := answers("unix", listener.Addr().String()+"x"); err == nil {
		t.Error("a missing socket answers")
	}
}
