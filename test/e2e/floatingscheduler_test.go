//go:build e2e

package e2e

import (
	"context"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/install/pki"
	"github.com/weft-network/weft/test/lab"
	"github.com/weft-network/weft/test/lab/tools"
)

// extenderScheduler is the name of the kube-scheduler that has Weft's extender.
const extenderScheduler = "floating"

// startExtender installs dist/scheduler.yaml and runs a kube-scheduler with the configuration of config/scheduler. The
// control plane's machine is not a node, so the scheduler reaches the extender by a node port.
func startExtender(t *testing.T) {
	t.Helper()
	node := lab.Node(1).IPv4.Addr()
	folder := filepath.Join(bed.Dir, "floating")
	must(t, os.MkdirAll(folder, 0o700))
	secret := makeKeys(t, folder, node)
	bed.create(t, secret)
	root, err := tools.SourceRoot()
	must(t, err)
	manifests := filepath.Join(root, "dist", "scheduler.yaml")
	bed.mustKubectl(t, "apply", "-f", manifests)
	t.Cleanup(func() {
		_, err := bed.Kubectl(cleanup(), "delete", "-f", manifests)
		must(t, err)
	})
	bed.mustKubectl(t, "-n", product, "patch", "service", "weft-extender", "--type=merge", "-p", `{"spec":{"type":"NodePort"}}`)
	bed.mustKubectl(t, "-n", product, "rollout", "status", "--timeout=180s", "deployment/weft-extender")
	var service corev1.Service
	must(t, bed.api.Get(t.Context(), types.NamespacedName{Namespace: product, Name: "weft-extender"}, &service))
	startScheduler(t, schedulerConfig(t, root, folder, netip.AddrPortFrom(node, uint16(service.Spec.Ports[0].NodePort))))
}

func (b *testbed) mustKubectl(t *testing.T, args ...string) {
	t.Helper()
	_, err := b.Kubectl(t.Context(), args...)
	must(t, err)
}

// makeKeys writes the keys of the scheduler into a folder and returns the extender's Secret.
func makeKeys(t *testing.T, folder string, node netip.Addr) *corev1.Secret {
	t.Helper()
	authority, err := pki.NewAuthority("weft-extender-ca", time.Now())
	must(t, err)
	pair, err := authority.Issue(pki.Subject{Name: "weft-extender", Addresses: []netip.Addr{node}}, time.Now())
	must(t, err)
	files := map[string][]byte{"ca.crt": authority.Cert, "tls.crt": pair.Cert, "tls.key": pair.Key}
	for name, text := range files {
		must(t, os.WriteFile(filepath.Join(folder, name), text, 0o600))
	}
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: product, Name: "weft-extender-tls"}, Data: files}
}

// schedulerConfig writes the configuration of config/scheduler with the lab's addresses and files.
func schedulerConfig(t *testing.T, root, folder string, extender netip.AddrPort) (file string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "config", "scheduler", "kube-scheduler.yaml"))
	must(t, err)
	for from, to := range map[string]string{"CLUSTER-IP:9448": extender.String(), "weft-extender.weft-system.svc": extender.Addr().String(),
		"/etc/kubernetes/weft-extender/": folder + "/",
		"/etc/kubernetes/scheduler.conf": filepath.Join(bed.Dir, "pki", "kube-scheduler.kubeconfig"),
		"leaderElect: true":              "leaderElect: false"} {
		if !strings.Contains(string(text), from) {
			t.Fatalf("config/scheduler/kube-scheduler.yaml has no %s", from)
		}
		text = []byte(strings.ReplaceAll(string(text), from, to))
	}
	var config map[string]any
	must(t, yaml.Unmarshal(text, &config))
	config["profiles"] = []map[string]any{{"schedulerName": extenderScheduler}}
	text, err = yaml.Marshal(config)
	must(t, err)
	file = filepath.Join(folder, "scheduler.yaml")
	must(t, os.WriteFile(file, text, 0o600))
	return file
}

// untilInputEnds runs a program until the standard input ends.
const untilInputEnds = `"$@" & read -r _; kill $!; wait $!; true`

// startScheduler runs a kube-scheduler on the control plane's machine until the test's end.
func startScheduler(t *testing.T, config string) {
	t.Helper()
	cmd, err := bed.Command(context.Background(), lab.ControlPlane().Name, "sh", "-c", untilInputEnds, "sh",
		bed.Cache.Bin("kube-scheduler"), "--config", config, "--secure-port", "0", "-v", "2")
	must(t, err)
	end, err := cmd.StdinPipe()
	must(t, err)
	log, err := os.Create(strings.TrimSuffix(config, ".yaml") + ".log")
	must(t, err)
	cmd.Stdout, cmd.Stderr = log, log
	must(t, cmd.Start())
	t.Cleanup(func() { stopScheduler(t, end, cmd.Wait, log) })
}

func stopScheduler(t *testing.T, end io.Closer, wait func() error, log *os.File) {
	must(t, end.Close())
	if err := wait(); err != nil {
		t.Errorf("kube-scheduler: %v", err)
	}
	must(t, log.Close())
}

// requestAddress makes a template's pods request an address, by the extender or by the gate.
func requestAddress(template *corev1.PodTemplateSpec, pool string, policy networkv1alpha1.ReleasePolicy, gate bool) {
	template.Annotations = map[string]string{networkv1alpha1.IPPoolAnnotation: pool, networkv1alpha1.ReleasePolicyAnnotation: string(policy)}
	if gate {
		template.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: networkv1alpha1.FloatingGate}}
		return
	}
	one := corev1.ResourceList{networkv1alpha1.FloatingResource: resource.MustParse("1")}
	template.Spec.SchedulerName = extenderScheduler
	template.Spec.Containers[0].Resources = corev1.ResourceRequirements{Requests: one, Limits: one}
}
