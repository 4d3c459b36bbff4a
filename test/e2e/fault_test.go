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

// fault is a failure injected into a cluster, and how ClusterNetwork's status must report it.
type fault struct {
	name           string
	area           networkv1alpha1.AreaName
	reason, object string
	says           string // a word of the message, if other faults have the same reason
	inject         func(*wound)
	slow           bool // reported or cleared after a minute, or slow to inject: only with WEFT_E2E_FAULTS=all
	unwritten      bool // the fault stops the status writer, so only the plugin reports it
}

// allFaults is the environment variable that enables the slow faults if it is "all".
const allFaults = "WEFT_E2E_FAULTS"

// TestStatusNamesInjectedFaults injects faults on a node, in the control plane and in requests. The status and the
// plugin must report each by area, reason and object, and clear the report after the repair.
func TestStatusNamesInjectedFaults(t *testing.T) {
	here, there := bed.peerPod("fault-1", "n1"), bed.peerPod("fault-2", "n2")
	bed.run(t, here, there)
	eventually(t, convergence, func() error { return healthy(t) })
	plugin := newWeft(t)
	for _, f := range slices.Concat(daemonFaults(t), hostFaults(t), requestFaults()) {
		t.Run(f.name, func(t *testing.T) {
			if f.slow && os.Getenv(allFaults) != "all" {
				t.Skipf("slow; set %s=all to run it", allFaults)
			}
			f.test(t, plugin)
		})
	}
	bed.awaitConsistent(t) // the faults leave no rows or links behind
	bed.mustReach(t, here, there)
	testStatusCommand(t, plugin)
	testBundle(t, plugin)
}

// test injects the fault, waits for its report, and repairs it. The repair runs even if the report is missing.
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
	reported := time.Since(began)
	if err := f.drawn(t, plugin); err != nil {
		t.Error(err)
	}
	began = time.Now()
	w.heal()
	eventually(t, 2*recoveryTimeout, func() error { return healthy(t) })
	t.Logf("reported after %.1f s, cleared %.1f s after the repair began", reported.Seconds(), time.Since(began).Seconds())
}

// named returns nil if the fault is the first problem of its area.
func (f fault) named(t *testing.T) error {
	s, err := faultStatus(t)
	if err != nil {
		return err
	}
	first := slices.IndexFunc(s.Problems, func(p networkv1alpha1.Problem) bool { return p.Area == f.area })
	if first >= 0 && f.is(s.Problems[first]) {
		t.Logf("%s, %s: %s: %s -> %s", s.Problems[first].State, f.reason, s.Problems[first].Object,
			s.Problems[first].Message, s.Problems[first].NextStep)
		return nil
	}
	return errors.Join(fmt.Errorf("problem %s of %s is not the first in area %s: %+v", f.reason, f.object, f.area,
		s.Problems), t.Context().Err())
}

func (f fault) is(p networkv1alpha1.Problem) bool {
	return p.Reason == f.reason && strings.Contains(p.Object, f.object) && strings.Contains(p.Message, f.says) && p.NextStep != ""
}

// drawn returns nil if "kubectl weft status" prints the fault: a line with reason and object, and below it the next
// step.
func (f fault) drawn(t *testing.T, plugin *weft) error {
	out, errs, code := (&weft{t, plugin.folder}).run("", "status")
	if code != 1 {
		return fmt.Errorf("kubectl weft status has exit code %d, want 1: %s%s", code, out, errs)
	}
	for _, problem := range strings.SplitAfter(out, "\n    -> ") {
		if _, after, ok := strings.Cut(problem, ", "+f.reason+": "); ok && strings.Contains(after, f.object) &&
			strings.HasSuffix(problem, "-> ") {
			return nil
		}
	}
	return fmt.Errorf("kubectl weft status does not print %s of %s:\n%s", f.reason, f.object, out)
}

// wound is the cluster with an injected fault. Each repair is registered before the damage is done.
type wound struct {
	*testing.T
	cures []func()
}

func (w *wound) cure(by func()) { w.cures = append(w.cures, by) }

// heal runs the repairs in reverse order. If one ends the test, the test's cleanup runs the rest.
func (w *wound) heal() {
	for len(w.cures) > 0 {
		last := len(w.cures) - 1
		by := w.cures[last]
		w.cures = w.cures[:last]
		by()
	}
}

// on runs a program inside a machine, also during the test's cleanup.
func (w *wound) on(machine string, argv ...string) string {
	w.Helper()
	out, err := bed.Exec(cleanup(), machine, argv...)
	must(w.T, err)
	return strings.TrimSpace(string(out))
}

// create creates objects that heal removes.
func (w *wound) create(objects ...client.Object) {
	w.Helper()
	for _, o := range objects {
		must(w.T, bed.api.Create(w.Context(), o))
		w.cure(func() { bed.remove(w.T, o) })
	}
}

// again repeats an action periodically until heal.
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
			t.Errorf("exit code %d, want 0 and a healthy network: %s%s", code, out, errs)
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
			t.Errorf("exit code %d: %s%s%s", code, out, errs, missing)
		}
		listed, err := exec.CommandContext(t.Context(), "tar", "tzf", file).Output()
		must(t, err)
		for _, part := range []string{"status.txt", "drift.json", "check.json", "objects/ClusterNetwork.yaml",
			"objects/Node.yaml", "logs/weft-operator-", "logs/weft-agent-", "metrics/weft-operator-"} {
			if !strings.Contains(string(listed), "/"+part) {
				t.Errorf("the bundle lacks %s:\n%s", part, listed)
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
