//go:build e2e

package e2e

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weft-network/weft/test/documented"
)

// notRun are the beginnings of documented command lines that this test does not run, and why.
var notRun = map[string]string{
	"ui":                 "it ends only with an interruption",
	"check connectivity": "TestCheckConnectivity runs it",
	"db rebuild":         "TestRebuild runs it",
	"remove":             "test/install runs it",
	"ip release":         "it changes what other tests use",
	"ip import":          "it needs an IPPool of another network",
	"ip history":         "it needs an address that a pod had",
	"migrate inspect":    "it needs the network of another project",
	"log demo --denied":  "it ends only with an interruption",
	"COMMAND":            "it is no command",
	"-o json":            "it is no command",
}

// shorter are flags that let a command end early.
var shorter = map[string][]string{"capture": {"--for=2s"}, "status --wait": {"--timeout=10s"}, "bundle": {"-f", "-"}}

const denyAll = `apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: documented, namespace: e2e}
spec: {podSelector: {matchLabels: {app: documented}}, policyTypes: [Ingress]}
`

// TestDocumentedCommandLines runs the command lines of the README and of the pages with the pods and files of this test in place of
// their examples. Each gives an answer, which may be that something is wrong.
func TestDocumentedCommandLines(t *testing.T) {
	w := newWeft(t)
	server, client := bed.peerPod("documented-server", "n1"), bed.peerPod("documented-client", "n2")
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "documented"}}
	service.Spec.Selector, service.Spec.Ports = server.Labels, []corev1.ServicePort{{Port: 80}}
	bed.run(t, server, client)
	bed.create(t, service)
	folder := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(folder, name)
		must(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	policy := file("policy.yaml", denyAll)
	planned := file("pod.json", manifestOf(t, bed.peerPod("documented-planned", "")))
	to, from := namespace+"/"+server.Name, namespace+"/"+client.Name
	values := map[string]string{
		"POD": to, "NAMESPACE/POD": to, "demo/web-0": to, "demo/web-1": to, "demo/guarded": to,
		"TO": "svc/e2e/documented", "pod/demo/web-0": "pod/" + to,
		"FROM": from, "demo/client": from, "demo/$CLIENT": from, "weft-check-x7k2p/a-1": from, "svc/NAMESPACE/NAME": "svc/e2e/documented",
		"svc/demo/web": "svc/e2e/documented", "networkpolicy/demo/deny-all": "pod/" + to, "networkpolicy/demo/web": "pod/" + to,
		"OBJECT": "pod/" + to, "[OBJECT]": "pod/" + to,
		"demo": namespace, "PORT": "80", "[TEXT]": "", "[NAMESPACE][/POD]": to, "[NAMESPACE|NAMESPACE/POD]": to, "UID": "0",
		"FILE": policy, "policy.yaml": policy, "policies.yaml": policy, "deny-all.yaml": policy, "service.yaml": policy, "web-1.yaml": planned,
		"web-0.pcap": filepath.Join(folder, "web-0.pcap"), "net1": "eth0", "weft": filepath.Join(folder, "weft"),
		"FOLDER": filepath.Join(folder, "folder"), "ADDRESS": "192.0.2.10", "COMMAND": "trace", "NAT": "NAT",
	}
	lines, err := documented.Read("../..")
	must(t, err)
	var ran []string
	for _, line := range lines {
		args, err := line.Fill(values)
		must(t, err)
		if slices.Contains(ran, strings.Join(args, " ")) || !runs(line.Text) || !line.Example && namesOnly(args) {
			continue
		}
		ran = append(ran, strings.Join(args, " "))
		for begin, flags := range shorter {
			if strings.HasPrefix(strings.Join(args, " ")+" ", begin+" ") {
				args = append(args, flags...)
			}
		}
		if out, errs, code := w.run("", args...); code > 1 {
			t.Errorf("%s: %s: kubectl weft %v: exit code %d\n%s%s", line.At, line.Command(), args, code, out, errs)
		}
	}
	if len(ran) < 25 {
		t.Errorf("ran %q only", ran)
	}
	t.Logf("ran %d lines: %q", len(ran), ran)
}

// runs reports whether the test runs a line.
func runs(text string) bool {
	for begin := range notRun {
		if strings.HasPrefix(text+" ", begin+" ") {
			return false
		}
	}
	return text != ""
}

// namesOnly reports whether a sentence names a command, perhaps with a flag, without the arguments that it needs.
func namesOnly(args []string) bool {
	needs := []string{"trace", "why", "capture", "history", "plan", "lint", "ip", "db", "migrate"}
	return len(args) == 0 || slices.Contains(needs, args[0]) && (len(args) == 1 || len(args) == 2 && strings.HasPrefix(args[1], "-"))
}
