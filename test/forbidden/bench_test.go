package forbidden

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// BenchmarkPod measures what the policies cost an ordinary pod: rounds of pods with and without policies alternate.
// Each pod is created and its status is written three times. The figures are the medians of both requests, the API
// server's own metric of its policy plugin, and the API server's total CPU time per pod.
//
//	go test ./test/forbidden -run '^$' -bench Pod -benchtime 1x
func BenchmarkPod(b *testing.B) {
	const rounds, each, writes = 8, 200, 3
	figures := map[bool]*cost{true: {}, false: {}}
	for b.Loop() {
		for round := range rounds {
			with := round%2 == 0
			enforce(b, with)
			figure := figures[with]
			pluginBefore, cpuBefore := spent(b)
			for i := range each {
				live(b, fmt.Sprintf("bench-%d-%d", round, i), writes, figure)
			}
			pluginAfter, cpuAfter := spent(b)
			figure.pods += each
			figure.plugin += pluginAfter - pluginBefore
			figure.cpu += cpuAfter - cpuBefore
			now := int64(0)
			if err := admin.CoreV1().Pods("default").DeleteCollection(b.Context(),
				metav1.DeleteOptions{GracePeriodSeconds: &now}, metav1.ListOptions{}); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.ReportMetric(0, "ns/op")
	figures[true].report(b, "with")
	figures[false].report(b, "without")
}

// cost is the measured cost of pods.
type cost struct {
	create, status []time.Duration
	pods           int
	plugin, cpu    time.Duration
}

func (c *cost) report(b *testing.B, name string) {
	b.Helper()
	b.ReportMetric(float64(median(c.create).Microseconds()), "µs-create-"+name)
	b.ReportMetric(float64(median(c.status).Microseconds()), "µs-status-"+name)
	b.ReportMetric(float64(c.plugin.Microseconds())/float64(c.pods), "µs-plugin-"+name)
	b.ReportMetric(float64(c.cpu.Microseconds())/float64(c.pods), "µs-CPU-"+name)
}

// live creates a pod and writes its status as kubelet does.
func live(b *testing.B, name string, writes int, c *cost) {
	b.Helper()
	start := time.Now()
	if _, err := admin.CoreV1().Pods("default").Create(b.Context(), ordinaryPod(name), metav1.CreateOptions{}); err != nil {
		b.Fatal(err)
	}
	c.create = append(c.create, time.Since(start))
	for i := range writes {
		patch := fmt.Sprintf(`{"status":{"phase":"Running","conditions":[{"type":"Ready","status":"False","message":"%d"}]}}`, i)
		start = time.Now()
		if _, err := admin.CoreV1().Pods("default").Patch(b.Context(), name, types.StrategicMergePatchType,
			[]byte(patch), metav1.PatchOptions{}, "status"); err != nil {
			b.Fatal(err)
		}
		c.status = append(c.status, time.Since(start))
	}
}

// ordinaryPod returns a pod of usual size, with labels, variables, volumes and probes.
func ordinaryPod(name string) *corev1.Pod {
	pod := podOf("default", name, "")
	pod.Labels = map[string]string{"app": "bench", "pod-template-hash": "6d4cf56db6"}
	pod.Annotations = map[string]string{"kubectl.kubernetes.io/restartedAt": "2026-01-02T03:04:05Z",
		"checksum/config": strings.Repeat("0", 64)}
	c := &pod.Spec.Containers[0]
	for i := range 15 {
		c.Env = append(c.Env, corev1.EnvVar{Name: fmt.Sprintf("VARIABLE_%d", i), Value: "value"})
	}
	for i := range 5 {
		volume := fmt.Sprintf("volume-%d", i)
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: volume})
		c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: volume, MountPath: "/" + volume})
	}
	return pod
}

// enforce binds or unbinds the policies, and waits until that is in effect.
func enforce(b *testing.B, on bool) {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), time.Minute)
	defer cancel()
	var err error
	if on {
		err = install(ctx)
	} else if err = kubectl(ctx, "delete", "validatingadmissionpolicybinding", "--all"); err == nil {
		err = enforced(ctx, false)
	}
	if err != nil {
		b.Fatal(err)
	}
}

// spent returns the API server's time in policies for creations and updates, and its CPU time.
func spent(b *testing.B) (plugin, cpu time.Duration) {
	b.Helper()
	text, err := admin.RESTClient().Get().AbsPath("/metrics").DoRaw(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		line := lines.Text()
		onPolicies := strings.HasPrefix(line, "apiserver_admission_controller_admission_duration_seconds_sum") &&
			strings.Contains(line, `name="ValidatingAdmissionPolicy"`) && !strings.Contains(line, `operation="DELETE"`)
		onAll := strings.HasPrefix(line, "process_cpu_seconds_total ")
		if !onPolicies && !onAll {
			continue
		}
		seconds, err := strconv.ParseFloat(line[strings.LastIndexByte(line, ' ')+1:], 64)
		if err != nil {
			b.Fatal(err)
		}
		if onAll {
			cpu = time.Duration(seconds * float64(time.Second))
		} else {
			plugin += time.Duration(seconds * float64(time.Second))
		}
	}
	return plugin, cpu
}

func median(d []time.Duration) time.Duration {
	slices.Sort(d)
	return d[len(d)/2]
}
