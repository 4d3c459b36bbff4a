//go:build e2e

package alertfaults

import (
	"context"
	"fmt"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/weft-network/weft/pkg/ovn/names"
	"github.com/weft-network/weft/test/testbed"
)

// Names in alerts.
const (
	northbound = "OVN_Northbound"
	southbound = "OVN_Southbound"
)

// again repeats an action until stop, which returns when the action has ended.
func again(t *testing.T, pause time.Duration, do func(ctx context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		for ctx.Err() == nil {
			if err := whole(ctx, do(ctx)); err != nil {
				t.Error(err)
				return
			}
			select {
			case <-ctx.Done():
			case <-time.After(pause):
			}
		}
	})
	return func() {
		cancel()
		running.Wait()
	}
}

// spoiled repeatedly changes the address of a pod's port through another client of the database.
func (w *ward) spoiled() fault {
	drift := map[string]string{"database": northbound}
	return fault{name: "another client writes other addresses into a pod's port, every 0.7 s", within: time.Minute,
		alerts: []expected{{alert: "WeftDrift", factor: undivided, labels: drift, lasts: true},
			{alert: "WeftDrift", factor: divided, labels: drift}},
		inject: func(t *testing.T) func() {
			pod := w.Parked("spoiled", "n2")
			w.create(t, pod)
			eventually(t, patience, func() error {
				return w.nbctl(t.Context(), "get", "Logical_Switch_Port", testbed.PortOf(pod), "_uuid")
			})
			return again(t, 700*time.Millisecond, func(ctx context.Context) error {
				return w.nbctl(ctx, "lsp-set-addresses", testbed.PortOf(pod), "0a:58:00:00:00:63 10.244.0.99")
			})
		}}
}

// refused leaves ports of a previous network with the names that new pods need.
func (w *ward) refused() fault {
	const count, legacy = 12, "alarm-legacy"
	late := map[string]string{"stage": "address"}
	return fault{name: "12 pods whose port names belong to rows of a previous network", within: 4 * time.Minute,
		alerts: []expected{
			{alert: "WeftTransactionsFail", factor: divided, labels: map[string]string{"database": northbound}},
			{alert: "WeftPodsNotAttached", factor: undivided, labels: late, lasts: true},
			{alert: "WeftPodsNotAttached", factor: divided, labels: late, passes: true},
		},
		also: []string{"WeftDrift", "WeftDegraded"}, // the foreign rows are collisions
		inject: func(t *testing.T) func() {
			var pods []*corev1.Pod
			args := []string{"ls-add", legacy}
			for i := range count {
				pods = append(pods, w.Pausing(fmt.Sprintf("refused-%d", i), "n2"))
				args = append(args, "--", "lsp-add", legacy, testbed.PortOf(pods[i]))
			}
			must(t, w.nbctl(t.Context(), args...))
			// One refused row is retried every 30 s, which is longer than the divided range. So the pods are created
			// one after the other.
			for _, p := range pods {
				w.create(t, p)
				time.Sleep(2500 * time.Millisecond)
			}
			return func() { must(t, w.nbctl(context.Background(), "ls-del", legacy)) }
		}}
}

// violated adds a foreign port with a pod's address to a node's switch. It is not a Weft row, so Weft does not
// change it.
func (w *ward) violated() fault {
	const intruder = "alarm-intruder"
	return fault{name: "a foreign port on a node's switch has a pod's address", within: 9 * time.Minute, // checked every 5 minutes
		alerts: []expected{{alert: "WeftInvariantViolated", factor: divided, labels: map[string]string{"invariant": "UniqueAddress"}}},
		also:   []string{"WeftDegraded"},
		inject: func(t *testing.T) func() {
			pod := w.Pausing("doubled", "n2")
			w.run(t, pod)
			// lsp-set-addresses would refuse the address; writing the row directly does not.
			addresses := fmt.Sprintf(`addresses=["0a:58:aa:aa:aa:01 %s"]`, pod.Status.PodIP)
			must(t, w.nbctl(t.Context(), "--id=@port", "create", "Logical_Switch_Port", "name="+intruder, addresses,
				"--", "add", "Logical_Switch", names.NodeSwitch("n2"), "ports", "@port"))
			return func() { must(t, w.nbctl(context.Background(), "lsp-del", intruder)) }
		}}
}

// stopped keeps a daemon of the lab down.
func (w *ward) stopped(t *testing.T, machine, daemon string) (start func()) {
	must(t, w.Stop(machine, daemon, syscall.SIGKILL))
	return func() { must(t, w.Start(machine, daemon)) }
}

// northboundAway keeps the northbound server down until the operator gives up its lease and the alert with undivided
// durations fires.
func (w *ward) northboundAway() fault {
	away := map[string]string{"area": "Databases"}
	return fault{name: "the northbound database's server is killed and stays down", within: 3 * time.Minute,
		alerts: []expected{
			{alert: "WeftUnavailable", factor: divided, labels: away},
			{alert: "WeftDatabaseDisconnected", factor: divided, labels: map[string]string{"database": northbound}},
			{alert: "WeftNoLeader", factor: divided, passes: true}, // the operator repeatedly releases the lease
			{alert: "WeftUnavailable", factor: undivided, labels: away},
		},
		also:   []string{"WeftTransactionsFail"}, // of the heartbeat
		inject: func(t *testing.T) func() { return w.stopped(t, "cp", "nb") }}
}

// northdAway kills ovn-northd. The operator detects that only when it waits for northd, after a change of a
// service's endpoints.
func (w *ward) northdAway(backend *backend) fault {
	return fault{name: "ovn-northd is killed and stays down", within: 2 * time.Minute,
		alerts: []expected{{alert: "WeftUnavailable", factor: divided, labels: map[string]string{"area": "ControlPlane"}}},
		inject: func(t *testing.T) func() {
			start := w.stopped(t, "cp", "northd")
			stop := again(t, 20*time.Second, backend.toggle) // the operator measures at most once a minute
			return func() {
				stop()
				start()
			}
		}}
}

// noOperator scales the Deployment to zero while pods are created.
func (w *ward) noOperator() fault {
	late := map[string]string{"stage": "address"}
	scale := func(t *testing.T, replicas int) {
		_, err := w.Kubectl(context.Background(), "-n", testbed.Product, "scale", "deployment", "weft-operator",
			fmt.Sprint("--replicas=", replicas))
		must(t, err)
	}
	return fault{name: "the operator's Deployment is scaled to 0, and 8 pods are created", within: 5 * time.Minute,
		alerts: []expected{
			{alert: "WeftNoLeader", factor: divided},
			{alert: "WeftPodsNotAttached", factor: undivided, labels: late, lasts: true},
			{alert: "WeftPodsNotAttached", factor: divided, labels: late, passes: true},
			{alert: "WeftNoLeader", factor: undivided},
		},
		inject: func(t *testing.T) func() {
			scale(t, 0)
			eventually(t, patience, func() error {
				out, err := w.Kubectl(t.Context(), "-n", testbed.Product, "get", "pods", "-l",
					"app.kubernetes.io/component=operator", "-o", "name")
				if err == nil && len(out) > 0 {
					err = fmt.Errorf("%s still exists", out)
				}
				return err
			})
			for i := range 8 {
				w.create(t, w.Pausing(fmt.Sprintf("waiting-%d", i), "n2"))
			}
			return func() { scale(t, 1) }
		}}
}
