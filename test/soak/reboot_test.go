//go:build e2e

package soak

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/weft-network/weft/test/testbed"
)

var rebootPods = flag.Int("reboot-pods", 250, "pods of the node that reboots")

const (
	// memoryLimit is the memory limit of the agent's container.
	memoryLimit = "64Mi"
	// back bounds how long a node with 250 pods may take to recover on a machine with two cores.
	back = 8 * time.Minute
)

// endAll ends what a reboot ends: all containers, their network namespaces with their links, and the content of
// /run/weft.
const endAll = `
for p in /proc/[0-9]*; do
	if grep -q kubepods $p/cgroup 2>/dev/null; then kill -9 ${p#/proc/} 2>/dev/null; fi
done
for p in $(busybox pidof containerd-shim-runc-v2); do kill -9 $p; done
for n in /run/netns/*; do
	[ -e $n ] || continue
	umount $n; rm -f $n
done
rm -rf /run/weft/*
true`

// TestReboot stops a node with many pods. When it returns, all their ADDs run at once, before its agent runs, whose
// container may use 64 MiB.
func TestReboot(t *testing.T) {
	bed := open(t)
	limitAgent(t, bed)
	sandboxes, err := bed.Sandboxes(t.Context(), "n1")
	must(t, err)
	defer sandboxes.Close()
	pods := park(t, bed, *rebootPods)
	r := &run{Options: Options{Node: "n1", Output: os.Stdout}, bed: bed, sandboxes: sandboxes, account: newAccount(),
		kills: &disturbances{}, claims: newClaims()}
	for first := 0; first < len(pods); first += 25 {
		attachAll(t, r, pods[first:min(first+25, len(pods))], uint64(first))
	}
	r.account = newAccount()
	before, err := bed.AwaitAgent(t.Context(), "n1", "")
	must(t, err)
	defer r.kills.begin()() // failures until it is back are explained
	start := time.Now()
	restart(t, bed)
	boxes := attachAll(t, r, pods, uint64(len(pods)))
	took := time.Since(start)
	after, err := bed.AwaitAgent(t.Context(), "n1", before.PID)
	must(t, err)
	peak, err := bed.Number(t.Context(), "n1", cgroupPeak, after.PID)
	must(t, err)
	rss, err := bed.Memory(t.Context(), after, "VmHWM")
	must(t, err)
	anon, err := bed.Memory(t.Context(), after, "RssAnon")
	must(t, err)
	r.account.print(r.Output, took)
	fmt.Printf("%d pods had their interfaces %.1f s after the node's start; the agent's container used at most %.1f MiB of %s,\n"+
		"its process %.1f MiB RSS, now %.1f MiB anonymous\n", len(pods), took.Seconds(), float64(peak)/(1<<20),
		memoryLimit, mib(rss), mib(anon))
	if n := after.Pod.Status.ContainerStatuses[0]; n.LastTerminationState.Terminated != nil &&
		n.LastTerminationState.Terminated.Reason == "OOMKilled" {
		t.Errorf("the agent ran out of its memory: %+v", n)
	}
	for _, a := range boxes {
		must(t, a.end(t.Context(), a.box))
	}
	must(t, r.account.failures())
}

// cgroupPeak prints the peak memory usage of a process's control group, in bytes.
const cgroupPeak = `
group=$(grep -E ":memory:" /proc/$1/cgroup | cut -d: -f3)
if [ -n "$group" ]; then cat /sys/fs/cgroup/memory$group/memory.max_usage_in_bytes
else cat /sys/fs/cgroup$(cut -d: -f3 /proc/$1/cgroup)/memory.peak; fi`

// limitAgent sets the memory limit of the agent's container, and waits for the agent with the limit.
func limitAgent(t *testing.T, b *testbed.Bed) {
	t.Helper()
	patch := `{"spec":{"template":{"spec":{"containers":[{"name":"agent","resources":{"limits":{"memory":"` + memoryLimit + `"}}}]}}}}`
	for _, args := range [][]string{
		{"patch", "daemonset", "weft-agent", "--type=strategic", "-p", patch},
		{"rollout", "status", "--timeout=90s", "daemonset/weft-agent"},
	} {
		_, err := b.Kubectl(t.Context(), append([]string{"-n", testbed.Product}, args...)...)
		must(t, err)
	}
}

// park creates pods that the test's cleanup removes.
func park(t *testing.T, b *testbed.Bed, count int) []*corev1.Pod {
	t.Helper()
	var pods []*corev1.Pod
	for i := range count {
		pods = append(pods, b.Parked(fmt.Sprintf("reboot-%d", i), "n1"))
	}
	t.Cleanup(func() { must(t, b.Remove(context.Background(), pods...)) })
	must(t, b.Park(t.Context(), pods...))
	return pods
}

// restart stops everything on the node and starts it again, because the lab cannot boot a machine a second time.
func restart(t *testing.T, b *testbed.Bed) {
	t.Helper()
	up := []string{"ovsdb-server", "ovs-vswitchd", "ovn-controller", "containerd", "kubelet"}
	for _, d := range slices.Backward(up) {
		must(t, b.Stop("n1", d, syscall.SIGKILL))
	}
	_, err := b.Shell(t.Context(), "n1", endAll)
	must(t, err)
	for _, d := range up {
		must(t, b.Start("n1", d))
	}
}

// attached is a pod with its sandbox.
type attached struct {
	*worker
	box box
}

// attachAll attaches all pods at once, each as its runtime would: a sandbox whose ADD fails is replaced by another.
// Sandbox names are numbered from first on.
func attachAll(t *testing.T, r *run, pods []*corev1.Pod, first uint64) []attached {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), back)
	defer cancel()
	all, failures := make([]attached, len(pods)), make([]error, len(pods))
	var group sync.WaitGroup
	for i, p := range pods {
		group.Go(func() {
			w := &worker{run: r, id: i, pod: p, rng: rand.New(rand.NewPCG(*seed, first+uint64(i)))}
			all[i].worker = w
			all[i].box, failures[i] = w.attach(ctx)
		})
	}
	group.Wait()
	must(t, errors.Join(failures...))
	return all
}

func mib(kib int) float64 { return float64(kib) / 1024 }
