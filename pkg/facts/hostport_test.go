package facts_test

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/facts"
)

// The host translates 127.0.0.1. Nothing translates ::1.
func TestHostPortsAtLoopback(t *testing.T) {
	pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Ports: []corev1.ContainerPort{
		{ContainerPort: 80, HostPort: 8080, HostIP: "127.0.0.1"}, {ContainerPort: 80, HostPort: 8081, HostIP: "::1"}}}}}}
	ports, problems := facts.HostPorts(pod)
	if len(ports) != 1 || ports[0].Address.String() != "127.0.0.1" || ports[0].Port != 8080 {
		t.Errorf("host ports are %+v", ports)
	}
	if len(problems) != 1 || !strings.Contains(problems[0], "container web, host port 8081") {
		t.Errorf("problems are %q", problems)
	}
}

// An IPv4 address in IPv6 notation is that IPv4 address.
func TestHostPortsAtMappedAddresses(t *testing.T) {
	pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Ports: []corev1.ContainerPort{
		{ContainerPort: 80, HostPort: 8080, HostIP: "::ffff:192.0.2.1"}, {ContainerPort: 80, HostPort: 8081, HostIP: "::ffff:0.0.0.0"}}}}}}
	ports, problems := facts.HostPorts(pod)
	if len(problems) != 0 || len(ports) != 2 || ports[0].Address.String() != "192.0.2.1" || ports[1].Address.IsValid() {
		t.Errorf("host ports are %+v, problems are %q", ports, problems)
	}
}

// Of two pods of a node with one port, exactly one keeps it: a random port, then the pod that kubelet started first. kube-scheduler
// compares the texts of hostIP, so that these pods can meet on a node.
func TestHostPortHolder(t *testing.T) {
	started := func(seconds int64) *metav1.Time { return new(metav1.NewTime(time.Unix(seconds, 0))) }
	pod := func(uid types.UID, ip string, change ...func(*corev1.Pod)) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: string(uid), UID: uid, CreationTimestamp: *started(100)}}
		p.Spec.NodeName, p.Status.StartTime = "n1", started(200)
		port := corev1.ContainerPort{ContainerPort: 80, Protocol: "TCP", HostPort: 20000, HostIP: ip}
		p.Spec.Containers = []corev1.Container{{Ports: []corev1.ContainerPort{port}}}
		for _, c := range change {
			c(p)
		}
		return p
	}
	random := func(p *corev1.Pod) {
		p.Spec.Containers[0].Ports[0].HostPort = 0
		p.Annotations = map[string]string{networkv1alpha1.RandomHostPortsAnnotation: "true",
			networkv1alpha1.HostPortsAnnotation: `[{"protocol":"TCP","containerPort":80,"hostPort":20000}]`}
	}
	late := func(p *corev1.Pod) { p.Status.StartTime = started(300) }
	never := func(p *corev1.Pod) { p.Status.StartTime, p.CreationTimestamp = nil, *started(1) }
	younger := func(p *corev1.Pod) { p.CreationTimestamp = *started(150) }
	host := func(p *corev1.Pod) { p.Spec.HostNetwork = true }
	for name, c := range map[string]struct {
		stays, yields *corev1.Pod
		as            string
	}{
		"a random port":                    {pod("b", "", random, late), pod("a", ""), "the random host port"},
		"of random ports the earlier":      {pod("b", "", random), pod("a", "", random, late), "the random host port"},
		"the pod that kubelet started":     {pod("b", "192.0.2.1"), pod("a", "::", never), "the host port"},
		"the pod that started first":       {pod("b", "::"), pod("a", "192.0.2.1", late), "the host port"},
		"in one second the older pod":      {pod("b", "::ffff:192.0.2.1"), pod("a", "192.0.2.1", younger), "the host port"},
		"of pods of one age the lower UID": {pod("a", "::"), pod("b", ""), "the host port"},
		"a pod in the host's network":      {pod("b", "192.0.2.1", host), pod("a", "::", late), "the host port"},
	} {
		ports := func(p *corev1.Pod) facts.HostPort { return facts.PortsOfNode(p)[0] }
		if got, want := facts.HostPortHolder(c.yields, c.stays, ports(c.yields)), c.as+" of pod demo/"+c.stays.Name; got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
		if got := facts.HostPortHolder(c.stays, c.yields, ports(c.stays)); got != "" {
			t.Errorf("%s: the pod that stays yields to %s", name, got)
		}
	}
	mine := pod("b", "192.0.2.1", late)
	for name, other := range map[string]*corev1.Pod{
		"itself": pod("b", "::"), "another address": pod("a", "192.0.2.2"),
		"another node":     pod("a", "", func(p *corev1.Pod) { p.Spec.NodeName = "n2" }),
		"another protocol": pod("a", "", func(p *corev1.Pod) { p.Spec.Containers[0].Ports[0].Protocol = "UDP" }),
		"another port":     pod("a", "", func(p *corev1.Pod) { p.Spec.Containers[0].Ports[0].HostPort = 20001 }),
		"a pod that ended": pod("a", "", func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }),
		"an init container": pod("a", "", func(p *corev1.Pod) {
			p.Spec.InitContainers, p.Spec.Containers = p.Spec.Containers, nil
		}),
	} {
		if got := facts.HostPortHolder(mine, other, facts.PortsOfNode(mine)[0]); got != "" {
			t.Errorf("%s: yields to %s", name, got)
		}
	}
}

// Kubernetes reserves the host ports of sidecars, and of no other init container.
func TestHostPortsOfInitContainers(t *testing.T) {
	of := func(port int32, policy *corev1.ContainerRestartPolicy) corev1.Container {
		return corev1.Container{RestartPolicy: policy, Ports: []corev1.ContainerPort{{Name: "web", ContainerPort: port, HostPort: port}}}
	}
	pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{of(3, nil)}, InitContainers: []corev1.Container{
		of(1, nil), of(2, new(corev1.ContainerRestartPolicyAlways)), of(4, new(corev1.ContainerRestartPolicy("OnFailure")))}}}
	ports, problems := facts.HostPorts(pod)
	if len(problems) != 0 || len(ports) != 2 || ports[0].Port != 2 || ports[1].Port != 3 {
		t.Errorf("host ports are %+v, problems are %q", ports, problems)
	}
}
