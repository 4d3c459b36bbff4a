package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

// node creates a node, and its NodeNetwork as the operator does. Only the operator may write it, so it stays.
func node(t *testing.T, name, subnet, address string) {
	t.Helper()
	host := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	host.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: address}}
	create(t, host)
	manifest := filepath.Join(t.TempDir(), "nodenetwork.yaml")
	text := fmt.Sprintf("apiVersion: %s\nkind: NodeNetwork\nmetadata: {name: %s}\n"+
		"spec: {nodeID: 7, podSubnets: [%s], managementPort: {macAddress: \"0a:58:0a:f4:07:02\"}}\n",
		networkv1alpha1.GroupVersion, name, subnet)
	if err := os.WriteFile(manifest, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	kubectl(t, "--as=system:serviceaccount:"+system+":weft-operator", "create", "-f", manifest)
}

// traces runs trace and why for objects that are missing or do not need the databases, which no pod serves here.
func traces(t *testing.T) {
	node(t, "t1", "10.244.7.0/24", "172.18.0.17")
	waiting := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "waiting"},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "c"}}}}
	started := waiting.DeepCopy()
	started.Name, started.Spec.NodeName, started.Status.PodIPs = "started", "t1", []corev1.PodIP{{IP: "10.244.7.3"}}
	started.Status.PodIP = "10.244.7.3"
	create(t, waiting, started)
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "two"},
		Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "a", Port: 80}, {Name: "b", Port: 81}}}}
	headless := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "headless"},
		Spec: corev1.ServiceSpec{ClusterIP: corev1.ClusterIPNone, Ports: []corev1.ServicePort{{Port: 80}}}}
	create(t, service, headless)

	for _, bad := range []struct{ args, says string }{
		{"", "want two arguments, FROM and TO, not 0"},
		{"started", "want two arguments, FROM and TO, not 1"},
		{"nope started --port=80", "error: there is no pod default/nope"},
		{"started pod/demo/nope --port=80", "error: there is no pod demo/nope"},
		{"started svc/nope", "error: there is no service default/nope"},
		{"started web.demo.svc.cluster.local", "error: there is no service demo/web"},
		{"started example.org --port=80", "is no name of a service"},
		{"started node/nope --port=80", "error: there is no node nope with a NodeNetwork"},
		{"started a/b/c --port=80", "want NAMESPACE/POD, svc/NAMESPACE/NAME, node/NAME, an address or outside"},
		{"svc/two started --port=80", "Service default/two sends no packets"},
		{"started svc/two", "--port is required: Service default/two has ports 80, 81"},
		{"started 192.0.2.1", "--port is required"},
		{"started svc/two --port=http", "want a number from 1 to 65535"},
		{"started svc/two --protocol=ip", "want tcp, udp, sctp or icmp"},
		{"started svc/two --family=ipv5", "want IPv4 or IPv6"},
		{"started svc/two --port=80 -o yaml", "want text, json, dot or svg"},
		{"started svc/two --port=80", "error: namespace weft-system has no running pod of the OVN databases"},
	} {
		weft(t, failed, append([]string{"trace"}, strings.Fields(bad.args)...), bad.says)
	}
	weft(t, failed, []string{"trace", "started", "svc/headless", "--port=80"},
		"unknown: Service default/headless has no address that Weft balances")
	weft(t, failed, []string{"trace", "started", "2001:db8::1", "--port=80"},
		"unknown: default/started and 2001:db8::1 have no address of the same family")
	weft(t, failed, []string{"trace", "started", "2001:db8::1", "--port=80", "-o", "json"}, `"result": "unknown"`, `"findings": []`)
	weft(t, failed, []string{"trace", "started", "2001:db8::1", "--port=80", "-o", "svg"}, "<svg ", "have no address of the same family")

	manifest := filepath.Join(t.TempDir(), "lint.yaml")
	text := "apiVersion: v1\nkind: Service\nmetadata: {name: s}\nspec: {selector: {app: nobody}, ports: [{port: 80}]}\n"
	if err := os.WriteFile(manifest, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	weft(t, different, []string{"lint", "-f", manifest}, "spec.selector: no pod in namespace default has the labels app=nobody")
	weft(t, different, []string{"lint", "--offline", "-f", manifest, "-o", "json"}, `"field": "spec.selector"`)
	weft(t, failed, []string{"lint"}, `required flag(s) "filename" not set`)
	weft(t, failed, []string{"lint", "-f", "/nope.yaml"}, "/nope.yaml")

	weft(t, failed, []string{"topology", "nope"}, "error: there is no pod default/nope")
	weft(t, failed, []string{"topology", "192.0.2.1"}, "192.0.2.1 is outside the cluster: want a pod, a service or a node")
	weft(t, failed, []string{"topology", "-o", "png"}, "want text, json, dot, mermaid, svg or html")
	weft(t, fine, []string{"topology"}, "switch t1  10.244.7.0/24", "pod default/started  10.244.7.3")
	weft(t, fine, []string{"topology", "svc/two", "-o", "mermaid"}, "flowchart LR", "service default/two")
	weft(t, fine, []string{"topology", "started", "-o", "json"}, `"name": "pod default/started"`)
	weft(t, fine, []string{"topology", "node/t1", "-o", "svg"}, "<svg ", "pod default/started")
	weft(t, fine, []string{"topology", "node/t1", "-o", "html"}, "<!doctype html>", "<svg ", "pod default/started")

	for args, want := range map[string]string{
		"why|": "started\nwaiting\ndefault/\n", "why|sta": "started\n", "why|default/w": "default/waiting\n", "why|defa": "default/\n",
		"trace|started|svc/t": "svc/two\n", "trace|started|svc/default/": "svc/default/headless\nsvc/default/kubernetes\n",
		"trace|node/t": "node/t1\n", "trace|out": "outside\n", "topology|pod/default/s": "pod/default/started\n",
		"trace|--node|t": "t1\n", "plan|--node|t": "t1\n", "ip|import|--network|": ":4\n",
		"status|-n|weft": system + "\n",
		"log|default/st": "default/started\n",
	} {
		out := weftReads(t, "", fine, append([]string{"__complete"}, strings.Split(args, "|")...))
		if !strings.HasPrefix(out, want) {
			t.Errorf("complete %s: %q, want %q", args, out, want)
		}
	}

	weft(t, failed, []string{"why"}, "want one argument, NAMESPACE/POD, not 0")
	weft(t, failed, []string{"why", "demo/nope"}, "error: there is no pod demo/nope")
	weft(t, failed, []string{"why", "a/b/c"}, "want NAMESPACE/POD")
	weft(t, different, []string{"why", "waiting"}, "default/waiting waits for the scheduler (stage scheduling, since ")
	weft(t, fine, []string{"why", "pod/started"}, "default/started: the pod has its network")
	weft(t, different, []string{"why", "waiting", "-o", "json"}, `"stage": "scheduling"`)
}
