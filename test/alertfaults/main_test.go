//go:build e2e

package alertfaults

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/test/lab"
	"github.com/weft-network/weft/test/poll"
	"github.com/weft-network/weft/test/testbed"
)

// patience bounds how long kubelets and the product may take on a busy machine.
const patience = 2 * time.Minute

func TestMain(m *testing.M) { os.Exit(testbed.Main(m, labName(), lab.UpOptions{})) }

func labName() string { return cmp.Or(os.Getenv("WEFT_LAB"), "alarm") }

// ward is the lab in which faults are injected, with the watcher of its alerts.
type ward struct {
	*testbed.Bed
	watcher *watcher
	struck  []*struck
}

// open starts watching the lab, which must be healthy.
func open(t *testing.T) *ward {
	t.Helper()
	cluster, err := lab.Open(lab.Options{Name: labName()})
	must(t, err)
	bed, err := testbed.New(t.Context(), cluster, "alarm")
	must(t, err)
	w := &ward{Bed: bed}
	w.awaitHealthy(t)
	w.watcher = watch(t, bed)
	return w
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// eventually fails the test unless check succeeds in time.
func eventually(t *testing.T, timeout time.Duration, check func() error) {
	t.Helper()
	must(t, poll.Slowly(t.Context(), timeout, check))
}

// awaitHealthy waits until the network has no problem, so that later problems come from a fault.
func (w *ward) awaitHealthy(t *testing.T) {
	t.Helper()
	w.awaitStatus(t, func(s networkv1alpha1.ClusterNetworkStatus) bool {
		return s.Nodes.Ready == s.Nodes.Total && len(s.Problems) == 0
	})
}

// awaitNodes waits until each node's network is ready again. Other faults may remain.
func (w *ward) awaitNodes(t *testing.T) {
	t.Helper()
	w.awaitStatus(t, func(s networkv1alpha1.ClusterNetworkStatus) bool {
		return s.Nodes.Ready == s.Nodes.Total && meta.IsStatusConditionTrue(s.Conditions, networkv1alpha1.ConditionAvailable)
	})
}

func (w *ward) awaitStatus(t *testing.T, ok func(networkv1alpha1.ClusterNetworkStatus) bool) {
	t.Helper()
	eventually(t, patience, func() error {
		var cn networkv1alpha1.ClusterNetwork
		err := w.API.Get(t.Context(), client.ObjectKey{Name: networkv1alpha1.ClusterNetworkName}, &cn)
		if s := cn.Status; err == nil && !ok(s) {
			err = fmt.Errorf("%d of %d nodes are ready, problems %+v", s.Nodes.Ready, s.Nodes.Total, s.Problems)
		}
		return err
	})
}

// create creates objects; the test's cleanup removes them.
func (w *ward) create(t *testing.T, objects ...client.Object) {
	t.Helper()
	for _, o := range objects {
		must(t, w.API.Create(t.Context(), o))
		t.Cleanup(func() {
			err := w.API.Delete(context.Background(), o, client.GracePeriodSeconds(0))
			if client.IgnoreNotFound(err) != nil {
				t.Error(err)
			}
		})
	}
}

// run creates pods and waits until they are Ready.
func (w *ward) run(t *testing.T, pods ...*corev1.Pod) {
	t.Helper()
	for _, p := range pods {
		w.create(t, p)
	}
	for _, p := range pods {
		eventually(t, patience, func() error {
			if err := w.API.Get(t.Context(), client.ObjectKeyFromObject(p), p); err != nil {
				return err
			}
			if !testbed.Ready(p) {
				return fmt.Errorf("pod %s is not Ready", p.Name)
			}
			return nil
		})
	}
}

// shell runs a script in a machine. It may be part of a cure after the test's own context has ended.
func (w *ward) shell(t *testing.T, machine, script string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	out, err := w.Shell(ctx, machine, script, args...)
	if err != nil {
		t.Error(err)
	}
	return out
}

// nbctl changes the northbound database behind Weft's back.
func (w *ward) nbctl(ctx context.Context, args ...string) error {
	central, err := w.Central(ctx)
	if err == nil {
		_, err = w.Exec(ctx, central, append([]string{"ovn-nbctl", "--timeout=10"}, args...)...)
	}
	return err
}

// whole joins the errors of several steps, except the end of the context that stops them.
func whole(ctx context.Context, errs ...error) error {
	if ctx.Err() != nil {
		return nil
	}
	return errors.Join(errs...)
}
