//go:build e2e

package load

import (
	"context"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/test/bench/figures"
)

// phase returns the cost from now until the work is done and the controller is idle; its duration does not include
// the wait for idleness.
func (w *world) phase(n int, work func()) figures.Phase {
	w.Helper()
	m, began := w.begin(), time.Now()
	work()
	took := time.Since(began)
	return figures.Phase{N: n, Seconds: took.Seconds(), Cost: w.settled(m)}
}

// join registers nodes and makes their agents report.
func (w *world) join(first, n int) {
	w.Helper()
	w.each(first, n, w.createNode)
	for i := first; i < first+n; i++ {
		_, err := w.seen.when("Logical_Switch", nodeName(i))
		w.must(err)
	}
	if w.controller.whole {
		w.each(first, n, w.report)
	}
}

func (w *world) createNode(ctx context.Context, i int) error {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodeName(i), Labels: rackOf(i)}}
	_, err := w.api.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{})
	return err
}

// report writes a node's status as its agent does. It retries if the operator has written its own condition in
// between.
func (w *world) report(ctx context.Context, i int) error {
	for {
		nn := &networkv1alpha1.NodeNetwork{}
		if err := w.own.Get(ctx, client.ObjectKey{Name: nodeName(i)}, nn); err != nil {
			return err
		}
		patch := client.MergeFromWithOptions(nn.DeepCopy(), client.MergeFromWithOptimisticLock{})
		report(nn)
		if err := w.own.Status().Patch(ctx, nn, patch); !apierrors.IsConflict(err) {
			return err
		}
	}
}

func (w *world) createPod(ctx context.Context, i, nodes int) error {
	in := namespaceOf(i)
	_, err := w.api.CoreV1().Pods(in).Create(ctx, podOf(i, nodes, in), metav1.CreateOptions{})
	return err
}

func (w *world) deletePod(ctx context.Context, i int) error {
	return w.api.CoreV1().Pods(namespaceOf(i)).Delete(ctx, podName(i), atOnce())
}

// run reports the pods as running, as their kubelets do.
func (w *world) run(ctx context.Context, i int) error {
	address := w.seen.address(podName(i))
	patch := fmt.Sprintf(`{"status":{"phase":"Running","podIP":%q,"podIPs":[{"ip":%q}]}}`, address, address)
	_, err := w.api.CoreV1().Pods(namespaceOf(i)).Patch(ctx, podName(i), types.StrategicMergePatchType, []byte(patch),
		metav1.PatchOptions{}, "status")
	return err
}

// storm creates all pods as fast as the API server accepts them.
func (w *world) storm(size figures.Size) figures.Storm {
	w.Helper()
	replied := make([]time.Time, size.Pods)
	m, began := w.begin(), time.Now()
	w.each(0, size.Pods, func(ctx context.Context, i int) error {
		defer func() { replied[i] = time.Now() }()
		return w.createPod(ctx, i, size.Nodes)
	})
	created := time.Since(began)
	w.must(w.seen.whenPorts(size.Pods))
	wired := time.Since(began)
	cost := w.settled(m)
	lags := make([]time.Duration, size.Pods)
	for i, reply := range replied {
		came, err := w.seen.when("Logical_Switch_Port", podName(i))
		w.must(err)
		lags[i] = max(came.Sub(reply), 0)
	}
	return figures.Storm{CreatedPerSecond: float64(size.Pods) / created.Seconds(), WiredPerSecond: float64(size.Pods) / wired.Seconds(),
		Lag: figures.SpreadOf(lags), PerPod: cost.Per(size.Pods)}
}

// services creates services and their endpoints until the database has the last.
func (w *world) services(size figures.Size) {
	w.Helper()
	w.each(0, size.Services, func(ctx context.Context, i int) error { return w.createService(ctx, i, size.Endpoints) })
	for i := range size.Services {
		_, err := w.seen.when("Load_Balancer", backend(i*size.Endpoints))
		w.must(err)
	}
}

func (w *world) createService(ctx context.Context, i, endpoints int) error {
	if _, err := w.api.CoreV1().Services(namespace).Create(ctx, serviceOf(i), metav1.CreateOptions{}); err != nil {
		return err
	}
	return w.createSlice(ctx, i, endpoints)
}

func (w *world) createSlice(ctx context.Context, i, endpoints int) error {
	_, err := w.api.DiscoveryV1().EndpointSlices(namespace).Create(ctx, sliceOf(i, endpoints), metav1.CreateOptions{})
	return err
}

// event measures n events of one kind, one at a time: do makes the request to the API server, done waits for the
// database.
func (w *world) event(n int, do func(ctx context.Context, i int) error, done func(i int) (time.Time, error)) figures.Event {
	w.Helper()
	took := make([]time.Duration, n)
	m := w.begin()
	for i := range n {
		began := time.Now()
		w.must(do(w.Context(), i))
		at, err := done(i)
		w.must(err)
		took[i] = at.Sub(began)
	}
	cost := w.settled(m)
	return figures.Event{Latency: figures.SpreadOf(took), Each: cost.Per(n)}
}

// events measures every kind of event in a steady state, and restores the cluster.
func (w *world) events(size figures.Size, n int) map[string]figures.Event {
	w.Helper()
	events := map[string]figures.Event{}
	first := size.Pods
	events[figures.AddedPod] = w.podAdds(first, n, size.Nodes)
	if w.controller.whole {
		w.serviceEvents(events, size, n)
		w.policyEvents(events, size, n)
		w.rounds(events, size, n)
		w.unusualEvents(events, size, n)
	}
	events[figures.DeletedPod] = w.event(n, func(ctx context.Context, i int) error { return w.deletePod(ctx, first+i) },
		func(i int) (time.Time, error) { return w.seen.whenGone("Logical_Switch_Port", podName(first+i)) })
	w.nodeEvents(events, size, max(n/10, 1))
	return events
}

func (w *world) podAdds(first, n, nodes int) figures.Event {
	w.Helper()
	return w.event(n, func(ctx context.Context, i int) error { return w.createPod(ctx, first+i, nodes) },
		func(i int) (time.Time, error) { return w.seen.when("Logical_Switch_Port", podName(first+i)) })
}

// serviceEvents creates services, then their endpoints, replaces an endpoint of each, and deletes them.
func (w *world) serviceEvents(events map[string]figures.Event, size figures.Size, n int) {
	w.Helper()
	first := size.Services
	events["service"] = w.event(n, func(ctx context.Context, i int) error {
		_, err := w.api.CoreV1().Services(namespace).Create(ctx, serviceOf(first+i), metav1.CreateOptions{})
		return err
	}, func(i int) (time.Time, error) { return w.seen.when("Load_Balancer", serviceName(first+i)) })
	events["endpoints"] = w.event(n, func(ctx context.Context, i int) error { return w.createSlice(ctx, first+i, size.Endpoints) },
		func(i int) (time.Time, error) { return w.seen.when("Load_Balancer", backend((first+i)*size.Endpoints)) })
	events["endpoint"] = w.event(n, func(ctx context.Context, i int) error {
		slice := sliceOf(first+i, size.Endpoints)
		slice.Endpoints = append(slice.Endpoints, endpointOf(changed(i)))
		_, err := w.api.DiscoveryV1().EndpointSlices(namespace).Update(ctx, slice, metav1.UpdateOptions{})
		return err
	}, func(i int) (time.Time, error) { return w.seen.when("Load_Balancer", changed(i)) })
	w.each(first, n, w.deleteService)
}

// policyEvents creates policies, and adds pods while they exist.
func (w *world) policyEvents(events map[string]figures.Event, size figures.Size, n int) {
	w.Helper()
	if size.Policies == 0 {
		return
	}
	events["policy"] = w.event(size.Policies, func(ctx context.Context, i int) error {
		return w.createPolicy(ctx, policyOf(i, *selectors))
	}, func(i int) (time.Time, error) { return w.seen.when("ACL", policyName(i)) })
	first := size.Pods + n
	events[fmt.Sprintf("pod add, %d policies", size.Policies)] = w.podAdds(first, n, size.Nodes)
	w.each(first, n, w.deletePod)
	w.each(0, size.Policies, func(ctx context.Context, i int) error { return w.deletePolicy(ctx, policyOf(i, *selectors)) })
	w.must(w.seen.whenPortsLeft(w.Context(), size.Pods+n))
}

// nodeEvents adds and removes nodes.
func (w *world) nodeEvents(events map[string]figures.Event, size figures.Size, n int) {
	w.Helper()
	events["node add"] = w.event(n, func(ctx context.Context, i int) error { return w.createNode(ctx, size.Nodes+i) },
		func(i int) (time.Time, error) { return w.seen.when("Logical_Switch", nodeName(size.Nodes+i)) })
	if !w.controller.whole {
		return
	}
	w.each(size.Nodes, n, w.report)
	events["node delete"] = w.event(n, func(ctx context.Context, i int) error {
		return w.api.CoreV1().Nodes().Delete(ctx, nodeName(size.Nodes+i), atOnce())
	}, func(i int) (time.Time, error) { return w.seen.whenGone("Logical_Switch", nodeName(size.Nodes+i)) })
}

// restart starts a killed controller again. The pod created at that moment stays.
func (w *world) restart(size figures.Size) figures.Restart {
	w.Helper()
	m, began := w.begin(), time.Now()
	s, path := w.controller.subject, w.controller.path
	w.startController(s, path)
	w.must(w.createPod(w.Context(), size.Pods+firstAfterRestart, size.Nodes))
	came, err := w.seen.when("Logical_Switch_Port", podName(size.Pods+firstAfterRestart))
	w.must(err)
	cost := w.settled(m)
	cost.Transactions-- // the pod's own transaction
	return figures.Restart{FirstPodSeconds: came.Sub(began).Seconds(), Cost: cost}
}

// firstAfterRestart is the number of a pod above the numbers of the events.
const firstAfterRestart = 100_000

// emptied kills the controller and empties the database.
func (w *world) emptied() {
	w.Helper()
	w.kill()
	w.nb.renew()
	maps.Copy(w.pids, w.nb.pids())
	if w.south != nil {
		w.south.Restart()
		w.pids[figures.Northd] = w.south.NorthdPID()
	}
	w.log.offset = 0
	w.startObserver()
}

// rebuild starts the controller again on the empty database.
func (w *world) rebuild(size figures.Size) figures.Phase {
	w.Helper()
	return w.phase(size.Pods+1, func() {
		w.startController(w.controller.subject, w.controller.path)
		w.must(w.seen.whenPorts(size.Ports() + 1))
	})
}
