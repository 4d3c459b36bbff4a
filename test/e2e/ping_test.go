//go:build e2e

package e2e

import (
	"bufio"
	"encoding/json"
	"io"
	"net/netip"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// pings are echo requests from one pod to all addresses of other pods, every 20 ms to each.
type pings struct {
	cmd  *exec.Cmd
	end  io.Closer // standard input: closing it ends the pings
	out  *bufio.Reader
	errs *strings.Builder
}

// pinged is the result for one address.
type pinged struct {
	To   netip.Addr
	Sent int
	Lost int
	Gaps []struct {
		At, Until time.Time
		Lost      int
	}
}

// startPings returns when every address has answered. Earlier requests do not count.
func startPings(t *testing.T, from *corev1.Pod, to ...*corev1.Pod) *pings {
	t.Helper()
	return startPingsWith(t, from, pingArgs(to))
}

// startPingsTo is startPings to an address.
func startPingsTo(t *testing.T, from *corev1.Pod, to string) *pings {
	t.Helper()
	return startPingsWith(t, from, append(pingArgs(nil), "--to="+to))
}

func startPingsWith(t *testing.T, from *corev1.Pod, args []string) *pings {
	t.Helper()
	argv := append([]string{"-n", from.Namespace, "exec", "-i", from.Name, "--", peerPath}, args...)
	return awaitPings(t, "pod "+from.Name, bed.KubectlCommand(t.Context(), argv...))
}

// startHostPings is startPings from a node itself, which no restart of the container runtime ends.
func startHostPings(t *testing.T, node string, to ...*corev1.Pod) *pings {
	t.Helper()
	cmd, err := bed.Command(t.Context(), node, append([]string{filepath.Join(bed.peerDir, "peer")}, pingArgs(to)...)...)
	must(t, err)
	return awaitPings(t, "node "+node, cmd)
}

func pingArgs(to []*corev1.Pod) []string {
	argv := []string{"ping", "--every=20ms"}
	for _, p := range to {
		for _, a := range addressesOf(p) {
			argv = append(argv, "--to="+a.String())
		}
	}
	return argv
}

func awaitPings(t *testing.T, from string, cmd *exec.Cmd) *pings {
	t.Helper()
	p := &pings{cmd: cmd, errs: &strings.Builder{}}
	p.cmd.Stderr = p.errs
	out, err := p.cmd.StdoutPipe()
	must(t, err)
	p.end, err = p.cmd.StdinPipe()
	must(t, err)
	must(t, p.cmd.Start())
	p.out = bufio.NewReader(out)
	if line, err := p.out.ReadString('\n'); err != nil || line != "ready\n" {
		_ = p.cmd.Wait()
		t.Fatalf("pings from %s: %q, %v\n%s", from, line, err, p.errs)
	}
	return p
}

// stop ends the pings and returns the results.
func (p *pings) stop(t *testing.T) []pinged {
	t.Helper()
	must(t, p.end.Close())
	var all []pinged
	if err := json.NewDecoder(p.out).Decode(&all); err != nil {
		t.Fatalf("pings: %v\n%s", err, p.errs)
	}
	if err := p.cmd.Wait(); err != nil {
		t.Fatalf("pings: %v\n%s", err, p.errs)
	}
	return all
}

func (p *pings) mustLoseNothing(t *testing.T) {
	t.Helper()
	for _, r := range p.stop(t) {
		t.Logf("to %s: %d of %d lost", r.To, r.Lost, r.Sent)
		if r.Lost > 0 || r.Sent == 0 {
			t.Errorf("to %s: %d of %d lost, in %+v", r.To, r.Lost, r.Sent, r.Gaps)
		}
	}
}
