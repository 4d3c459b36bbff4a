package facts_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

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
