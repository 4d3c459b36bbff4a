//go:build e2e

package cni

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/weft-network/weft/test/sandbox"
	"github.com/weft-network/weft/test/testbed"
)

// plugin is a plugin to measure.
type plugin struct {
	name, path, config string
}

// weft is the product's plugin, at the path where the agent installs it.
func weft() plugin {
	return plugin{"weft", "/opt/cni/bin/weft-cni", `{"cniVersion":"1.0.0","name":"weft","type":"weft-cni","socket":"/run/weft/cni.sock"}`}
}

// floor is the reference plugin with one address family, because with IPv6 it would wait for duplicate address
// detection.
func floor(t *testing.T, b *testbed.Bed) plugin {
	t.Helper()
	path, err := b.Build(t.Context(), "test/bench/cni/floor", "github.com/containernetworking/plugins/plugins/main/bridge")
	must(t, err)
	_, err = b.Build(t.Context(), "test/bench/cni/floor", "github.com/containernetworking/plugins/plugins/ipam/host-local")
	must(t, err)
	return plugin{"bridge", path, `{"cniVersion":"1.0.0","name":"floor","type":"bridge","bridge":"floor0","isGateway":true,"ipMasq":false,
		"ipam":{"type":"host-local","dataDir":"` + filepath.Dir(path) + `/ipam","ranges":[[{"subnet":"10.99.0.0/16"}]],` +
		`"routes":[{"dst":"0.0.0.0/0"}]}}`}
}

// bench is a test's connection to the lab.
type bench struct {
	*testbed.Bed
	t         *testing.T
	sandboxes *sandbox.Client
	agent     testbed.Agent
	made      int // number of sandboxes, for their names
}

func newBench(t *testing.T, b *testbed.Bed) *bench {
	t.Helper()
	sandboxes, err := b.Sandboxes(t.Context(), node)
	must(t, err)
	t.Cleanup(func() { must(t, sandboxes.Close()) })
	agent, err := b.AwaitAgent(t.Context(), node, "")
	must(t, err)
	return &bench{Bed: b, t: t, sandboxes: sandboxes, agent: agent}
}

// call returns an ADD for a pod in a new sandbox, and the matching DEL.
func (b *bench) call(p plugin, pod *corev1.Pod) (add, del sandbox.Call) {
	b.t.Helper()
	b.made++
	name := fmt.Sprintf("bench%d", b.made)
	must(b.t, b.sandboxes.Make(b.t.Context(), name))
	add = sandbox.Call{Plugin: p.path, Command: "ADD", ContainerID: name, NetNS: sandbox.Path(name), IfName: "eth0", Config: p.config,
		Args: fmt.Sprintf("IgnoreUnknown=1;K8S_POD_NAMESPACE=%s;K8S_POD_NAME=%s;K8S_POD_UID=%s", pod.Namespace, pod.Name, pod.UID)}
	del = add
	del.Command = "DEL"
	return add, del
}

// run runs calls at once, which must succeed, and returns how long each took.
func (b *bench) run(calls ...sandbox.Call) (took []time.Duration) {
	b.t.Helper()
	ends, err := b.sandboxes.Call(b.t.Context(), calls...)
	must(b.t, err)
	for i, end := range ends {
		if end.Exit != 0 {
			b.t.Fatalf("%s %s of %s ended with exit code %d: %s", calls[i].Plugin, calls[i].Command, calls[i].Args, end.Exit, end.Output)
		}
		took = append(took, end.Took)
	}
	return took
}

// end removes sandboxes after their DEL.
func (b *bench) end(calls ...sandbox.Call) {
	b.t.Helper()
	for _, c := range calls {
		must(b.t, b.sandboxes.Destroy(b.t.Context(), c.ContainerID))
	}
}

// park creates pods with a port but without a sandbox; the test's cleanup removes them.
func (b *bench) park(prefix string, count int) []*corev1.Pod {
	b.t.Helper()
	var pods []*corev1.Pod
	for i := range count {
		pods = append(pods, b.Parked(fmt.Sprintf("%s-%d", prefix, i), node))
	}
	b.t.Cleanup(func() { must(b.t, b.Remove(context.Background(), pods...)) })
	must(b.t, b.Park(b.t.Context(), pods...))
	return pods
}
