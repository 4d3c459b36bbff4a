//go:build e2e

package install

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestInstallWithoutConfigMap installs without the ConfigMap weft-apiserver, as after a removal, which deletes it
// with the namespace. Without kube-proxy the network cannot start. kubectl weft status prints the commands to run,
// and exactly these commands bring the network up.
func TestInstallWithoutConfigMap(t *testing.T) {
	b := up(t)
	b.kubectl("apply", "-f", "../../dist/install.yaml")
	b.kubectl("wait", "--for=condition=Established", "--timeout=60s", "crd/clusternetworks.network.weft.dev")
	b.kubectl("apply", "-f", "../lab/manifests/clusternetwork.yaml")
	plugin := b.plugin()

	var step string
	b.within(time.Minute, func() error {
		out, code := b.weft(plugin, "status")
		_, problem, found := strings.Cut(out, "APIServerUnreachable: Deployment/weft-operands\n")
		if code != 1 || !found || !strings.Contains(problem, "the ConfigMap weft-system/weft-apiserver, keys host and port") {
			return fmt.Errorf("status has exit code %d:\n%s", code, out)
		}
		_, step, _ = strings.Cut(problem, "-> kubectl ")
		return nil
	})
	create, rest, _ := strings.Cut(step, ",")
	_, restart, _ := strings.Cut(strings.TrimSpace(rest), "then kubectl ")
	restart, _, _ = strings.Cut(restart, "\n")
	t.Logf("kubectl %s\nkubectl %s", create, restart)
	b.kubectl(strings.Fields(create)...)
	b.kubectl(strings.Fields(restart)...)
	b.kubectl("wait", "--for=condition=Ready", "--timeout=180s", "clusternetwork/default")
	if out, code := b.weft(plugin, "status", "--wait", "--timeout=2m"); code != 0 {
		t.Errorf("status has exit code %d:\n%s", code, out)
	}
}

// plugin builds kubectl-weft in a folder that the machines see.
func (b bed) plugin() string {
	b.Helper()
	path := filepath.Join(b.Dir, "plugin", "kubectl-weft")
	cmd := exec.CommandContext(b.Context(), "go", "build", "-trimpath", "-o", path, "./cmd/kubectl-weft")
	cmd.Dir, cmd.Env = "../..", append(os.Environ(), "CGO_ENABLED=0")
	if text, err := cmd.CombinedOutput(); err != nil {
		b.Fatalf("build kubectl-weft: %v\n%s", err, text)
	}
	return path
}

// weft runs kubectl-weft on the API server's machine, and returns its output and exit code.
func (b bed) weft(plugin string, args ...string) (out string, code int) {
	b.Helper()
	cmd, err := b.Command(b.Context(), "cp", append([]string{plugin, "--kubeconfig", b.KubeConfig()}, args...)...)
	if err != nil {
		b.Fatal(err)
	}
	text, err := cmd.CombinedOutput()
	if ended, ok := errors.AsType[*exec.ExitError](err); ok {
		return string(text), ended.ExitCode()
	} else if err != nil {
		b.Fatal(err)
	}
	return string(text), 0
}
