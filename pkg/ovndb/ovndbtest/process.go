package ovndbtest

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

const (
	// startTimeout bounds the start of one program; 60 ms is usual.
	startTimeout = 20 * time.Second
	// commandTimeout bounds the run time of a command. Some commands wait for other programs.
	commandTimeout = time.Minute
)

// Binary returns the path of an OVN or OVS program.
func Binary(t testing.TB, name string) string {
	t.Helper()
	path := filepath.Join(cacheDir(t), "ovn", "bin", name)
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("%s is absent: run `make tools` first (%v)", name, err)
	}
	return path
}

// SchemaFile returns the path of a full schema: "ovn-nb", "ovn-sb" or "vswitch".
func SchemaFile(t testing.TB, name string) string {
	t.Helper()
	found, _ := filepath.Glob(filepath.Join(cacheDir(t), "ovn", "share", name+".ovsschema"))
	if len(found) != 1 {
		t.Fatalf("schema %s: found %v; run `make tools` first", name, found)
	}
	return found[0]
}

func cacheDir(t testing.TB) string {
	t.Helper()
	if dir := os.Getenv("WEFT_CACHE"); dir != "" {
		return dir
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, "weft")
}

// Command runs a program to its end and returns its output.
func Command(t testing.TB, name string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), commandTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, Binary(t, name), args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, stderr.String())
	}
	return stdout.String()
}

// process is a program in the foreground that ends with the test.
type process struct {
	name string
	cmd  *exec.Cmd
	log  string
	done chan struct{}
	// killed is set when the test ended the program.
	killed atomic.Bool
}

// restart runs a program again in the slot of an earlier run. At its end the test kills the current run of each slot,
// in the order of the first runs. What a test creates after a program may therefore rely on it to the end, however
// often it was restarted.
func restart(t testing.TB, slot **process, dir, name string, args ...string) {
	t.Helper()
	first := *slot == nil
	*slot = start(t, dir, name, args...)
	if first {
		t.Cleanup(func() { (*slot).end(t) })
	}
}

// start starts a program. The caller must end it.
func start(t testing.TB, dir, name string, args ...string) *process {
	t.Helper()
	p := &process{name: name, cmd: exec.Command(Binary(t, name), args...), log: filepath.Join(dir, name+".log"), done: make(chan struct{})}
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	p.cmd.Stdout, p.cmd.Stderr = log, log
	p.cmd.Env = append(os.Environ(), "OVN_RUNDIR="+dir, "OVS_RUNDIR="+dir)
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := p.cmd.Start(); err != nil {
		t.Fatalf("start %s: %v", name, err)
	}
	go func() {
		_ = p.cmd.Wait()
		close(p.done)
	}()
	return p
}

// end kills the program. It fails the test if the program ended by itself earlier, because other failures follow from
// that.
func (p *process) end(t testing.TB) {
	t.Helper()
	select {
	case <-p.done:
		if !p.killed.Load() {
			text, _ := os.ReadFile(p.log)
			t.Errorf("%s ended by itself (%v):\n%s", p.name, p.cmd.ProcessState, text)
		}
	default:
		p.signal(syscall.SIGKILL)
	}
}

// signal sends a signal that ends the program, and waits for its end.
func (p *process) signal(sig syscall.Signal) {
	p.killed.Store(true)
	if err := p.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return
	}
	<-p.done
}

// ready waits until the program accepts connections at a socket that it creates. The file appears a moment earlier.
func (p *process) ready(t testing.TB, socket string) {
	t.Helper()
	deadline := time.Now().Add(startTimeout)
	for time.Now().Before(deadline) {
		if c, err := net.Dial("unix", socket); err == nil {
			c.Close()
			return
		}
		select {
		case <-p.done:
			text, _ := os.ReadFile(p.log)
			t.Fatalf("%s ended at its start:\n%s", p.name, text)
		case <-time.After(2 * time.Millisecond): // a new socket causes no event; this only delays the start of a test
		}
	}
	t.Fatalf("%s did not make %s within %s", p.name, socket, startTimeout)
}
