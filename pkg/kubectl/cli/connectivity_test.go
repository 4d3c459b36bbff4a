package cli

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/kubectl/connectivity"
)

func TestConnectivityFlags(t *testing.T) {
	for flags, message := range map[string]string{
		"--skip=smoke":             `--skip "smoke": want some of`,
		"--outside=192.0.2.10":     `--outside "192.0.2.10": want HOST:PORT`,
		"--outside=192.0.2.10:0":   "want HOST:PORT",
		"--outside=2001:db8::1:80": "want HOST:PORT",
		"--for=-1m":                "--for -1m0s: want more than 0",
		"--timeout=0s":             "--timeout 0s: want more than 0",
		"--for=1m --interval=1ms":  "--interval 1ms: want 10ms or more",
		"--output=xml":             `invalid output "xml"`,
	} {
		var out, errs bytes.Buffer
		code := Run(append([]string{"check", "connectivity"}, strings.Fields(flags)...), strings.NewReader(""), &out, &errs)
		if code != exitError || !strings.Contains(errs.String(), message) {
			t.Errorf("%s: exit code %d, %q; want %d and %q", flags, code, errs.String(), exitError, message)
		}
	}
}

// worker returns a node with its agent.
func worker(name string, ready corev1.ConditionStatus, agent corev1.PodPhase) []client.Object {
	return []client.Object{
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.NodeStatus{
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}},
			Addresses: []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: name}, {Type: corev1.NodeInternalIP, Address: "192.0.2.1"},
				{Type: corev1.NodeInternalIP, Address: "2001:db8::1"}}}},
		&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: defaultNamespace, Name: "agent-" + name,
			Labels: map[string]string{networkv1alpha1.ComponentLabel: "agent"}},
			Spec: corev1.PodSpec{NodeName: name, Containers: []corev1.Container{{Name: "other", Image: "o"},
				{Name: agentContainer, Image: "weft:" + name}}},
			Status: corev1.PodStatus{Phase: agent}},
	}
}

// bedOf returns a bed in a cluster with objects.
func bedOf(objects []client.Object, nodes ...string) (*bed, *bytes.Buffer) {
	said := &bytes.Buffer{}
	return &bed{connectivityCommand: &connectivityCommand{cluster: &cluster{namespace: defaultNamespace}, nodes: nodes, timeout: time.Minute},
		progress: newProgress(said), agents: map[string]*corev1.Pod{}, api: fake.NewClientBuilder().WithObjects(objects...).Build()}, said
}

// Ready nodes with an agent are tested, up to a number. The others are named.
func TestNodesOfAConnectivityCheck(t *testing.T) {
	objects := slices.Concat(worker("a", corev1.ConditionTrue, corev1.PodRunning), worker("b", corev1.ConditionFalse, corev1.PodRunning),
		worker("c", corev1.ConditionTrue, corev1.PodPending))
	b, _ := bedOf(objects)
	if err := b.readNodes(t.Context()); err != nil || len(b.Nodes) != 1 || b.Nodes[0].Name != "a" || len(b.Nodes[0].Addresses) != 2 {
		t.Errorf("nodes %+v, error %v; want a", b.Nodes, err)
	}
	want := "node b was not tested: it is not ready\nnode c was not tested: it runs no agent of Weft"
	if notes := strings.Join(b.notes, "\n"); notes != want {
		t.Errorf("notes %q", notes)
	}
	if image := b.imageOf("a"); image != "weft:a" {
		t.Errorf("image %q", image)
	}
	for node, message := range map[string]string{"b": "--nodes b: it is not ready", "z": "--nodes z: there is no such node"} {
		b, _ := bedOf(objects, node)
		if err := b.readNodes(t.Context()); err == nil || err.Error() != message {
			t.Errorf("--nodes %s: %v", node, err)
		}
	}
	objects = nil
	for _, name := range strings.Split("abcdefghijklmno", "") {
		objects = append(objects, worker(name, corev1.ConditionTrue, corev1.PodRunning)...)
	}
	b, _ = bedOf(objects)
	if err := b.readNodes(t.Context()); err != nil || len(b.Nodes) != mostNodes ||
		!strings.HasPrefix(b.notes[0], "7 further nodes were not tested") || !strings.HasSuffix(b.notes[0], "i, j, k, l, m, ...") {
		t.Errorf("%d nodes, notes %q, error %v", len(b.Nodes), b.notes, err)
	}
	b, _ = bedOf(nil)
	if err := b.readNodes(t.Context()); err == nil || !strings.Contains(err.Error(), "no node is ready") {
		t.Errorf("no nodes: %v", err)
	}
}

// The namespace of a check that has ended goes; that of a check that may still run stays, and is named.
func TestWhatEarlierChecksLeft(t *testing.T) {
	over, running := connectivity.NewNamespace("weft-check-over", time.Now().Add(-time.Minute)),
		connectivity.NewNamespace("weft-check-running", time.Now().Add(time.Minute))
	b, said := bedOf([]client.Object{over, running, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "demo"}}})
	if err := b.removeEarlier(t.Context()); err != nil {
		t.Fatal(err)
	}
	var all corev1.NamespaceList
	if err := b.api.List(t.Context(), &all); err != nil || len(all.Items) != 2 {
		t.Errorf("namespaces %v, error %v; want demo and weft-check-running", all.Items, err)
	}
	if !strings.Contains(said.String(), "removing namespace weft-check-over") ||
		!slices.ContainsFunc(b.notes, func(n string) bool { return strings.Contains(n, "weft-check-running") }) {
		t.Errorf("said %q, notes %q", said, b.notes)
	}
}

// Pods that do not run say why.
func TestStateOfAPod(t *testing.T) {
	pod := func(state corev1.ContainerState) corev1.Pod {
		return corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a-0"}, Status: corev1.PodStatus{Phase: corev1.PodPending,
			PodIPs: []corev1.PodIP{{IP: "10.244.0.3"}, {IP: "fd00::3"}}, ContainerStatuses: []corev1.ContainerStatus{{State: state}}}}
	}
	for why, p := range map[string]corev1.Pod{
		"": pod(corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}),
		"ErrImageNeverPull: no image": pod(corev1.ContainerState{
			Waiting: &corev1.ContainerStateWaiting{Reason: "ErrImageNeverPull", Message: "no image"}}),
		"it has ended: unknown command": pod(corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Message: "unknown command\n"}}),
		"it is Pending":                 {ObjectMeta: metav1.ObjectMeta{Name: "a-0"}, Status: corev1.PodStatus{Phase: corev1.PodPending}},
		"it does not exist":             {},
	} {
		if got := stateOf([]corev1.Pod{p}, "a-0", "n1"); got.Why != why || why == "" && len(got.Addresses) != 2 {
			t.Errorf("%+v, want %q", got, why)
		}
	}
}

// A pod whose server does not listen yet is queried again, and keeps the last reason.
func TestAllAnswer(t *testing.T) {
	early, late := &connectivity.Pod{Name: "a-0"}, &connectivity.Pod{Name: "a-1"}
	listens := false
	query := func(p *connectivity.Pod) error {
		if p == late && !listens {
			return errors.New("connection refused")
		}
		return nil
	}
	if allAnswer([]*connectivity.Pod{early, late}, query) || early.Why != "" || late.Why != "its server does not answer: connection refused" {
		t.Errorf("%+v, %+v", early, late)
	}
	listens = true
	if !allAnswer([]*connectivity.Pod{early, late}, query) || late.Why != "" {
		t.Errorf("%+v, %+v", early, late)
	}
}

func TestProgressWithoutATerminalHasNoControlCharacters(t *testing.T) {
	var out bytes.Buffer
	p := newProgress(&out)
	p.now("1 of 2")
	p.say("2 of %d", 2)
	if text := out.String(); strings.ContainsAny(text, "\r\x1b") || strings.Count(text, "\n") != 1 {
		t.Errorf("%q", text)
	}
	if newProgress(io.Discard).terminal {
		t.Error("a writer without a file is a terminal")
	}
}
