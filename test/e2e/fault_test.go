//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

// fault is something that breaks in a cluster, and how its status names it.
type fault struct {
	name           string
	area           networkv1alpha1.AreaName
	reason, object string
	says           string // a word of the message, where others have the same reason
	inject         func(*wound)
	slow           bool // it is told or forgotten a minute later, or takes long to make: only with WEFT_E2E_FAULTS=all
	unwritten      bool // whoever writes the status is what is broken: only the plugin tells
}

// allFaults says that the slow ones are injected too.
const allFaults = "WEFT_E2E_FAULTS"

// TestStatusNamesInjectedFaults: what breaks on a node, in the control plane or by what somebody asks for is named by area, reason and object, in the
// status and by the plugin, and forgotten when it is whole again.
func TestStatusNamesInjectedFaults(t *testing.T) {
	here, there := bed.peerPod("fault-1", "n1"), bed.peerPod("fault-2", "n2")
	bed.run(t, here, there)
	eventually(t, convergence, func() error { return healthy(t) })
	plugin := newWeft(t)
	for _, f := range slices.Concat(daemonFaults(t), hostFaults(t), askedFaults()) {
		t.Run(f.name, func(t *testing.T) {
			if f.slow && os.Getenv(allFaults) != "all" {
				t.Skipf("it is slow: %s=all", allFaults)
			}
			f.test(t, plugin)
		})
	}
	bed.awaitConsistent(t) // what was broken has left nothing behind
	bed.mustReach(t, here, there)
	testStatusCommand(t, plugin)
	testBundle(t, plugin)
}

// test injects the fault, and cures it whether it is named or not.
func (f fault) test(t *testing.T, plugin *weft) {
	w := &wound{T: t}
	t.Cleanup(w.heal)
	began := time.Now()
	f.inject(w)
	eventually(t, recoveryTimeout, func() error {
		if f.unwritten {
			return f.drawn(t, plugin)
		}
		return f.named(t)
	})
	told := time.Since(began)
	if err := f.drawn(t, plugin); err != nil {
		t.Error(err)
	}
	began = time.Now()
	w.heal()
	eventually(t, 2*recoveryTimeout, func() error { return healthy(t) })
	t.Logf("told after %.1f s, forgotten %.1f s after its cure began", told.Seconds(), time.Since(began).Seconds())
}

// named wants the fault to be the first problem of its area.
func (f fault) named(t *testing.T) error {
	s, err := faultStatus(t)
	if err != nil {
		return err
	}
	first := slices.IndexFunc(s.Problems, func(p networkv1alpha1.Problem) bool { return p.Area == f.area })
	if first >= 0 && f.is(s.Problems[first]) {
		t.Logf("%s, %s: %s: %s -> %s", s.Problems[first].State, f.reason, s.Problems[first].Object, s.Problems[first].Message, s.Problems[first].NextStep)
		return nil
	}
	return errors.Join(fmt.Errorf("no problem %s of %s is the first of %s in %+v", f.reason, f.object, f.area, s.Problems), t.Context().Err())
}

func (f fault) is(p networkv1alpha1.Problem) bool {
	return p.Reason == f.reason && strings.Contains(p.Object, f.object) && strings.Contains(p.Message, f.says) && p.NextStep != ""
}

// drawn wants "kubectl weft status" to tell the same: a line with reason and object, and below it what to do.
func (f fault) drawn(t *testing.T, plugin *weft) error {
	out, errs, code := (&weft{t, plugin.folder}).run("", "status")
	if code != 1 {
		return fmt.Errorf("kubectl weft status ends with %d, want 1: %s%s", code, out, errs)
	}
	for _, problem := range strings.SplitAfter(out, "\n    -> ") {
		if _, after, ok := strings.Cut(problem, ", "+f.reason+": "); ok && strings.Contains(after, f.object) && strings.HasSuffix(problem, "-> ") {
			return nil
		}
	}
	return fmt.Errorf("kubectl weft status does not draw %s of %s:\n%s", f.reason, f.object, out)
}

// wound is a fault that is made. What cures it is noted before harm is done.
type wound struct {
	*testing.T
	cures []func()
}

func (w *wound) cure(by func()) { w.cures = append(w.cures, by) }

// heal undoes what was done, the last first. One that ends the test leaves the others to the test's end.
func (w *wound) heal() {
	for len(w.cures) > 0 {
		last := len(w.cures) - 1
		by := w.cures[last]
		w.cures = w.cures[:last]
		by()
	}
}

// on runs a program inside a machine, at a test's end too.
func (w *wound) on(machine string, argv ...string) string {
	w.Helper()
	out, err := bed.Exec(cleanup(), machine, argv...)
	must(w.T, err)
	return strings.TrimSpace(string(out))
}

// create makes objects that go with the fault.
func (w *wound) create(objects ...client.Object) {
	w.Helper()
	for _, o := range objects {
		must(w.T, bed.api.Create(w.Context(), o))
		w.cure(func() { bed.remove(w.T, o) })
	}
}

// again does something now and then until the fault is cured.
func (w *wound) again(every time.Duration, do func() error) {
	ctx, stop := context.WithCancel(cleanup())
	var doing sync.WaitGroup
	w.cure(func() { stop(); doing.Wait() })
	doing.Go(func() {
		for ticker := time.NewTicker(every); ctx.Err() == nil; {
			if err := do(); err != nil {
				w.Error(err)
			}
			select {
			case <-ticker.C:
			case <-ctx.Done():
				ticker.Stop()
			}
		}
	})
}

func testStatusCommand(t *testing.T, plugin *weft) {
	t.Run("kubectl weft status", func(t *testing.T) {
		out, errs, code := (&weft{t, plugin.folder}).run("", "status", "--wait", "--timeout=60s")
		if code != 0 || !strings.HasPrefix(out, "The network is healthy") {
			t.Errorf("it ends with %d and says %s%s", code, out, errs)
		}
		t.Logf("\n%s", out)
	})
}

func testBundle(t *testing.T, plugin *weft) {
	t.Run("kubectl weft bundle", func(t *testing.T) {
		file := filepath.Join(bed.peerDir, "bundle.tar.gz")
		must(t, os.RemoveAll(file))
		out, errs, code := (&weft{t, plugin.folder}).run("", "bundle", "-f", file)
		if code != 0 {
			missing, _ := exec.CommandContext(t.Context(), "tar", "xzOf", file, "--wildcards", "*/errors.txt").Output()
			t.Errorf("it ends with %d: %s%s%s", code, out, errs, missing)
		}
		listed, err := exec.CommandContext(t.Context(), "tar", "tzf", file).Output()
		must(t, err)
		for _, part := range []string{"status.txt", "drift.json", "check.json", "objects/ClusterNetwork.yaml", "objects/Node.yaml", "logs/weft-operator-", "logs/weft-agent-", "metrics/weft-operator-"} {
			if !strings.Contains(string(listed), "/"+part) {
				t.Errorf("it lacks %s:\n%s", part, listed)
			}
		}
	})
}

func faultStatus(t *testing.T) (networkv1alpha1.ClusterNetworkStatus, error) {
	var cn networkv1alpha1.ClusterNetwork
	err := bed.api.Get(t.Context(), types.NamespacedName{Name: networkv1alpha1.ClusterNetworkName}, &cn)
	return cn.Status, err
}

func healthy(t *testing.T) error {
	s, err := faultStatus(t)
	if err != nil || len(s.Problems) == 0 && meta.IsStatusConditionTrue(s.Conditions, networkv1alpha1.ConditionUpgradeable) {
		return err
	}
	return fmt.Errorf("problems %+v, conditions %+v", s.Problems, s.Conditions)
}
