package desired_test

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/agent/desired"
	"github.com/weft-network/weft/pkg/ovn/ovnexpr"
	"github.com/weft-network/weft/pkg/ovn/sbdb"
)

// requestOf reads the request of a binding: "tcp/:0/80", and the host ports that it has.
func requestOf(t *testing.T, wanted, has string) desired.HostPortRequest {
	t.Helper()
	request, err := desired.RandomHostPorts(&sbdb.PortBinding{LogicalPort: "demo_web",
		ExternalIDs: map[string]string{ovnexpr.RandomHostPortsKey: wanted, ovnexpr.HostPortsKey: has}})
	if err != nil {
		t.Fatal(err)
	}
	return request
}

// Each port of the range is tried, and the port that the pod has first.
func TestHostPortCandidates(t *testing.T) {
	every := []uint16{20000, 20001, 20002, 20003}
	for _, test := range []struct {
		name, has string
		first     uint16 // 0: any
	}{
		{"no port", "", 0},
		{"a port", "tcp/:20002/80", 20002},
		{"a port beside the range", "tcp/:20004/80", 0},
		{"another protocol", "udp/:20002/80", 0},
		{"another target", "tcp/:20002/81", 0},
	} {
		request := requestOf(t, "tcp/:0/80", test.has)
		for _, uid := range []string{"a", "b", "c"} {
			got := slices.Collect(desired.HostPortCandidates(request, request.Wanted[0], uid, 20000, 20003))
			if test.first != 0 {
				if got[0] != test.first {
					t.Errorf("%s: candidates %d, want %d first", test.name, got, test.first)
				}
				got = got[1:]
			}
			if slices.Sort(got); !slices.Equal(got, every) {
				t.Errorf("%s: candidates %d, want each of %d once", test.name, got, every)
			}
		}
	}
	request := requestOf(t, "tcp/:0/80", "")
	starts := map[uint16]bool{}
	for _, uid := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} {
		for port := range desired.HostPortCandidates(request, request.Wanted[0], uid, 1024, 65535) {
			starts[port] = true
			break
		}
	}
	if len(starts) < 8 {
		t.Errorf("8 pods begin at %d different ports", len(starts))
	}
}

func TestHostPortAnnotations(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web"}}
	pod.Spec.Containers = []corev1.Container{{Ports: []corev1.ContainerPort{
		{ContainerPort: 80, Protocol: "TCP"}, {ContainerPort: 53, Protocol: "UDP"},
		{ContainerPort: 443, Protocol: "TCP", HostPort: 8443, HostIP: "192.0.2.1"}, {ContainerPort: 90, Protocol: "TCP"}}}}
	given, err := ovnexpr.ParseHostPorts("tcp/:20001/80,udp/:20000/53")
	if err != nil {
		t.Fatal(err)
	}
	const ours = `[{"protocol":"TCP","containerPort":80,"hostPort":20001},{"protocol":"UDP","containerPort":53,"hostPort":20000}]`
	for _, galaxy := range []bool{false, true} {
		want := map[string]string{networkv1alpha1.HostPortsAnnotation: ours}
		if galaxy {
			pod.Annotations = map[string]string{networkv1alpha1.GalaxyPortMappingAnnotation: ""}
			want[networkv1alpha1.GalaxyPortMappingAnnotation] =
				`[{"hostPort":20001,"containerPort":80,"protocol":"TCP","podName":"web","podIP":"10.244.1.5"},` +
					`{"hostPort":20000,"containerPort":53,"protocol":"UDP","podName":"web","podIP":"10.244.1.5"},` +
					`{"hostPort":8443,"containerPort":443,"protocol":"TCP","hostIP":"192.0.2.1","podName":"web","podIP":"10.244.1.5"}]`
		}
		got, err := desired.HostPortAnnotations(pod, given, addrs("10.244.1.5", "fd00::5"))
		if err != nil || len(got) != len(want) {
			t.Fatalf("annotations %q, %v", got, err)
		}
		for key, text := range want {
			if got[key] != text {
				t.Errorf("annotation %s is %s, want %s", key, got[key], text)
			}
		}
	}
}
