//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	many         = 40
	scaleTimeout = 3 * time.Minute
)

// TestScale scales a Deployment up, down and up again. All pods get a network, and nothing remains of deleted pods.
func TestScale(t *testing.T) {
	bed.create(t, bed.peerDeployment("scale", 0))
	for round, replicas := range []int{many, 0, many, 0} {
		started := startTimes(t, "scale")
		must(t, bed.scale(t.Context(), "scale", int32(replicas)))
		took := eventually(t, scaleTimeout, func() error { return bed.settled(t.Context(), "scale", replicas) })
		bed.awaitConsistent(t)
		t.Logf("round %d: %d pods after %s; from creation to Ready: %s", round+1, replicas, milliseconds(took), started())
	}
	for _, node := range []string{"n1", "n2"} {
		logSandboxTimes(t, node)
	}
}

// startTimes watches the pods of a Deployment. The returned function stops the watch and summarizes how long each
// pod took to be Ready. The API's own timestamps are whole seconds.
func startTimes(t *testing.T, app string) (summary func() string) {
	ctx, cancel := context.WithCancel(t.Context())
	var list corev1.PodList
	pods, err := bed.api.Watch(ctx, &list, client.InNamespace(namespace), client.MatchingLabels{"app": app})
	must(t, err)
	var took []time.Duration
	var done sync.WaitGroup
	done.Go(func() { took = collectStarts(pods) })
	return func() string {
		cancel()
		pods.Stop()
		done.Wait()
		return percentiles(took)
	}
}

func collectStarts(pods watch.Interface) (took []time.Duration) {
	created := map[types.UID]time.Time{} // pods that are not Ready yet
	for event := range pods.ResultChan() {
		pod, ok := event.Object.(*corev1.Pod)
		if !ok {
			continue
		}
		ready := notReady(pod) == nil
		switch since, waiting := created[pod.UID]; {
		case event.Type == watch.Added && !ready:
			created[pod.UID] = time.Now()
		case waiting && ready:
			took = append(took, time.Since(since))
			delete(created, pod.UID)
		}
	}
	return took
}

func percentiles(took []time.Duration) string {
	if len(took) == 0 {
		return "none"
	}
	slices.Sort(took)
	at := func(percent int) string { return milliseconds(took[(len(took)-1)*percent/100]) }
	return fmt.Sprintf("%d pods, p50 %s, p95 %s, max %s", len(took), at(50), at(95), at(100))
}

// logSandboxTimes logs the time that kubelet measured for creating sandboxes, most of which is CNI ADD.
func logSandboxTimes(t *testing.T, node string) {
	out, err := bed.Kubectl(t.Context(), "get", "--raw", "/api/v1/nodes/"+node+"/proxy/metrics")
	must(t, err)
	samples, err := parseMetrics(out)
	must(t, err)
	const name = "kubelet_runtime_operations_duration_seconds"
	operation := `operation_type="run_podsandbox"`
	count := samples.sum(name+"_count", operation)
	if count == 0 {
		t.Errorf("kubelet of %s has no sandboxes in its metrics", node)
		return
	}
	t.Logf("%s: %v sandboxes (with CNI ADD), mean %.0f ms", node, count, 1000*samples.sum(name+"_sum", operation)/count)
}
