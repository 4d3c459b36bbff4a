//go:build e2e

package load

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/weft-network/weft/test/bench/figures"
	"github.com/weft-network/weft/test/lab/tools"
)

// subject is a controller to measure.
type subject struct {
	name    string
	program string // path of its package
	// whole is true for the operator: it serves more than pods, and has commands that check the database.
	whole bool
}

var subjects = map[string]subject{
	"weft":  {name: "weft", program: ".", whole: true},
	"floor": {name: "floor", program: "./test/bench/floor"},
}

// build compiles the controller.
func (s subject) build(t *testing.T) (path string) {
	t.Helper()
	source, err := tools.SourceRoot()
	if err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(t.TempDir(), s.name)
	cmd := exec.Command("go", "build", "-trimpath", "-tags", *tags, "-o", path, s.program)
	cmd.Dir, cmd.Env = source, append(os.Environ(), "CGO_ENABLED=0")
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v\n%s", s.program, err, text)
	}
	return path
}

// controller is a process of the subject.
type controller struct {
	subject
	path string
	cmd  *exec.Cmd
	done chan struct{}
}

func (w *world) socket() string { return filepath.Join(w.dir, "admin.sock") }

// startController starts a process of the subject.
func (w *world) startController(s subject, path string) {
	w.Helper()
	c := &controller{subject: s, path: path, done: make(chan struct{})}
	args := []string{"--nb", w.remotes()}
	if s.whole {
		args = append(args, "--health-probe-bind-address", "127.0.0.1:0", "--metrics-bind-address", "0", "--admin-socket", w.socket(),
			"--leader-election-namespace", "default", "--leader-election-identity", "bench", "--egressip-probe-port", "0")
	}
	log, err := os.OpenFile(filepath.Join(w.dir, s.name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	w.must(err)
	defer log.Close()
	c.cmd = exec.Command(path, args...)
	c.cmd.Stdout, c.cmd.Stderr = log, log
	c.cmd.Env = append(os.Environ(), "KUBECONFIG="+w.kubeconfig, "WEFT_PPROF="+w.pprofSocket())
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	w.must(c.cmd.Start())
	go func() {
		_ = c.cmd.Wait()
		close(c.done)
	}()
	first := w.controller == nil
	w.controller = c
	w.pids[figures.Controller] = c.cmd.Process.Pid
	if first {
		w.Cleanup(func() {
			if w.Failed() {
				text, _ := os.ReadFile(log.Name())
				w.Logf("the controller's log ends with:\n%s", text[max(0, len(text)-4000):])
			}
			w.kill()
		})
	}
}

// kill ends the controller as a crash does.
func (w *world) kill() {
	_ = w.controller.cmd.Process.Kill()
	<-w.controller.done
	delete(w.pids, figures.Controller)
}

// verify checks that the database is what the controller must make of the objects: no difference, no violated
// invariant, and a port for each pod.
func (w *world) verify(pods int) {
	w.Helper()
	if got := w.seen.portCount(); got != pods {
		w.Fatalf("the database has %d pod ports, want %d", got, pods)
	}
	if !w.controller.whole {
		return
	}
	var drift struct{ Changes []json.RawMessage }
	w.queryAdmin("drift", &drift)
	if len(drift.Changes) > 0 {
		w.Fatalf("the database differs from the desired state in %d places, the first: %s", len(drift.Changes), drift.Changes[0])
	}
	var check struct {
		Checked    []string
		Violations []json.RawMessage
	}
	w.queryAdmin("check", &check)
	if len(check.Checked) == 0 || len(check.Violations) > 0 {
		w.Fatalf("%d invariants were checked, %d violations: %s", len(check.Checked), len(check.Violations), check.Violations)
	}
}

// queryAdmin runs a query at the operator's administrator socket.
func (w *world) queryAdmin(query string, answer any) {
	w.Helper()
	var wrong bytes.Buffer
	cmd := exec.CommandContext(w.Context(), w.controller.path, "admin", "--socket", w.socket(), query)
	cmd.Stderr = &wrong
	text, err := cmd.Output()
	if err == nil {
		err = json.Unmarshal(text, answer)
	}
	if err != nil {
		w.Fatal(fmt.Errorf("admin %s: %w\n%s", query, err, &wrong))
	}
}

// policy makes the API server log the calls of one user after their end.
const policy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted]
rules:
- level: Metadata
  users: [%q]
- level: None
`

// childrenOf lists a process's children by program name.
func childrenOf(parent int) (map[string]int, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	found := map[string]int{}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			continue // it has ended
		}
		begin, end := bytes.IndexByte(text, '('), bytes.LastIndexByte(text, ')')
		if fields := strings.Fields(string(text[end+1:])); fields[1] == strconv.Itoa(parent) {
			found[string(text[begin+1:end])] = pid
		}
	}
	return found, nil
}
