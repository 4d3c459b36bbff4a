package facts_test

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/facts"
)

// portsPod is a pod with annotations (key, value, ...) whose container has the ports http 8080/TCP, 53/UDP, 53/TCP, SCTP
// 9000, and 443 with a hostPort.
func portsPod(annotations ...string) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "web", UID: "b", Annotations: map[string]string{}}}
	for pair := range slices.Chunk(annotations, 2) {
		pod.Annotations[pair[0]] = pair[1]
	}
	pod.Spec.Containers = []corev1.Container{{Name: "c", Ports: []corev1.ContainerPort{
		{Name: "http", ContainerPort: 8080}, {ContainerPort: 53, Protocol: "UDP"}, {ContainerPort: 53, Protocol: "TCP"},
		{ContainerPort: 9000, Protocol: "SCTP"}, {ContainerPort: 443, Protocol: "TCP", HostPort: 8443},
		{Name: "again", ContainerPort: 8080, Protocol: "TCP"},
	}}}
	return pod
}

func TestRandomHostPorts(t *testing.T) {
	const ours, galaxy = networkv1alpha1.RandomHostPortsAnnotation, networkv1alpha1.GalaxyPortMappingAnnotation
	all := []string{"TCP/8080", "UDP/53", "TCP/53", "SCTP/9000"}
	for _, test := range []struct {
		name        string
		annotations []string
		want        []string
		err         string
	}{
		{"no annotation", nil, nil, ""},
		{"all", []string{ours, "true"}, all, ""},
		{"none", []string{ours, "false"}, nil, ""},
		{"none, although Galaxy's asks", []string{ours, "false", galaxy, ""}, nil, ""},
		{"Galaxy's", []string{galaxy, ""}, all, ""},
		{"Galaxy's with its answer", []string{galaxy, `[{"hostPort":20000,"containerPort":8080}]`}, all, ""},
		{"a name", []string{ours, `["http"]`}, []string{"TCP/8080"}, ""},
		{"a number of two protocols", []string{ours, `["53"]`}, []string{"UDP/53", "TCP/53"}, ""},
		{"a number and its protocol", []string{ours, `["53/UDP", "9000/SCTP"]`}, []string{"UDP/53", "SCTP/9000"}, ""},
		{"another value", []string{ours, "yes"}, nil, `annotation ` + ours +
			`: "yes" is neither "true", "false" nor a JSON list of ports, such as ["http", "53/UDP"]`},
		{"an empty value", []string{ours, ""}, nil, `annotation ` + ours +
			`: "" is neither "true", "false" nor a JSON list of ports, such as ["http", "53/UDP"]`},
		{"an unknown name", []string{ours, `["http", "https"]`}, nil, `annotation ` + ours +
			`: element "https": no container of the pod has this port in its ports`},
		{"an empty name", []string{ours, `[""]`}, nil, `annotation ` + ours +
			`: element "": no container of the pod has this port in its ports`},
		{"another protocol", []string{ours, `["8080/UDP"]`}, nil, `annotation ` + ours +
			`: element "8080/UDP": no container of the pod has this port in its ports`},
		{"a port with a hostPort", []string{ours, `["443"]`}, nil, `annotation ` + ours +
			`: element "443": port TCP/443 of container c has the hostPort 8443`},
	} {
		ports, err := facts.RandomHostPorts(portsPod(test.annotations...))
		var got []string
		for _, port := range ports {
			got = append(got, facts.NodePort(port.Protocol, port.Target))
			if !port.Random || port.Port != 0 || port.Address.IsValid() {
				t.Errorf("%s: port %+v", test.name, port)
			}
		}
		text := ""
		if err != nil {
			text = err.Error()
		}
		if !slices.Equal(got, test.want) || text != test.err {
			t.Errorf("%s: got %q and error %q, want %q and %q", test.name, got, text, test.want, test.err)
		}
	}
	hosts := portsPod(ours, "true")
	hosts.Spec.HostNetwork = true
	if ports, err := facts.RandomHostPorts(hosts); len(ports) > 0 || err != nil {
		t.Errorf("a pod of the host's network gets %+v, %v", ports, err)
	}
}

// A pod has the random ports that it requests and was given, after the ports that it names.
func TestGivenHostPorts(t *testing.T) {
	const given = `[{"protocol":"UDP","containerPort":53,"hostPort":20001},{"protocol":"TCP","containerPort":53,"hostPort":20002},` +
		`{"protocol":"TCP","containerPort":1,"hostPort":20003},{"protocol":"SCTP","containerPort":9000,"hostPort":0}]`
	for _, test := range []struct {
		name, request, given string
		want                 []string
		problems             int
	}{
		{"all", "true", given, []string{"TCP/8443 443", "UDP/20001 53", "TCP/20002 53"}, 0},
		{"one", `["53/TCP"]`, given, []string{"TCP/8443 443", "TCP/20002 53"}, 0},
		{"none", "false", given, []string{"TCP/8443 443"}, 0},
		{"not yet", "true", "", []string{"TCP/8443 443"}, 0},
		{"a record that cannot be read", "true", "{", []string{"TCP/8443 443"}, 1},
		{"a request that cannot be read", "yes", given, []string{"TCP/8443 443"}, 1},
	} {
		ports, problems := facts.HostPorts(portsPod(networkv1alpha1.RandomHostPortsAnnotation, test.request,
			networkv1alpha1.HostPortsAnnotation, test.given))
		var got []string
		for _, p := range ports {
			got = append(got, facts.NodePort(p.Protocol, p.Port)+" "+facts.NodePort("", p.Target)[len("TCP/"):])
		}
		if !slices.Equal(got, test.want) || len(problems) != test.problems {
			t.Errorf("%s: got %q and %q, want %q", test.name, got, problems, test.want)
		}
	}
}
