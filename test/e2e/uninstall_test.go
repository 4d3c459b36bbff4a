//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weft-network/weft/test/lab"
	"github.com/weft-network/weft/test/lab/tools"
)

// TestUninstall removes the product from the nodes as docs/user/remove.md describes, checks that nothing remains, and
// installs it again.
func TestUninstall(t *testing.T) {
	kubectl := func(args ...string) {
		t.Helper()
		_, err := bed.Kubectl(t.Context(), args...)
		must(t, err)
	}
	// Running pods keep their network: the uninstaller waits until no pod runs.
	scaleDNS := func(replicas int) {
		t.Helper()
		_, err := bed.Kubectl(cleanup(), "-n", "kube-system", "scale", "deployment", "coredns", fmt.Sprintf("--replicas=%d", replicas))
		must(t, err)
	}
	t.Cleanup(func() {
		scaleDNS(2)
		_, err := bed.Kubectl(cleanup(), "-n", "kube-system", "rollout", "status", "--timeout=60s", "deployment/coredns")
		must(t, err)
	})
	t.Cleanup(func() { reinstall(t) })
	scaleDNS(0)
	_, err := bed.Kubectl(t.Context(), "-n", "kube-system", "wait", "--for=delete", "--timeout=60s", "pod", "-l", "k8s-app=kube-dns")
	must(t, err)
	kubectl("-n", "weft-system", "delete", "daemonset", "weft-agent", "--cascade=foreground", "--timeout=60s")
	if left := productOn(t.Context(), "n1"); len(left) < 4 {
		t.Fatalf("the agent removed something when it ended: only %q is left", left)
	}
	uninstaller := manifests(t, "uninstall")
	kubectl(append([]string{"apply"}, uninstaller...)...)
	kubectl("-n", "weft-system", "rollout", "status", "--timeout=60s", "daemonset/weft-uninstall")
	for _, node := range []string{"n1", "n2"} {
		eventually(t, 10*time.Second, func() error {
			if left := productOn(t.Context(), node); len(left) > 0 {
				return fmt.Errorf("node %s: %q remains", node, left)
			}
			return nil
		})
	}
	kubectl(append([]string{"delete", "--cascade=foreground", "--timeout=60s"}, uninstaller...)...)
	reinstall(t)
	a, b := bed.peerPod("again-1", "n1"), bed.peerPod("again-2", "n2")
	bed.run(t, a, b)
	bed.mustReach(t, a, b)
}

// manifests returns kubectl's arguments for a folder of config, or for its file in the release that the lab runs.
func manifests(t *testing.T, name string) []string {
	t.Helper()
	if release := os.Getenv(lab.ReleaseVariable); release != "" {
		return []string{"-f", filepath.Join(release, map[string]string{"default": "weft", "uninstall": "uninstall"}[name]+".yaml")}
	}
	source, err := tools.SourceRoot()
	must(t, err)
	return []string{"-k", filepath.Join(source, "config", name)}
}

// productOn lists the product's traces on a node.
func productOn(ctx context.Context, node string) (found []string) {
	for _, argv := range [][]string{
		{"ls", "/etc/cni/net.d/05-weft.conflist"}, {"ls", "/opt/cni/bin/weft-cni"}, {"ls", "/run/weft/cni.sock"},
		{"ip", "link", "show", "ovn-k8s-mp0"}, {"ovs-vsctl", "get", "Open_vSwitch", ".", "external_ids:ovn-remote"},
	} {
		if _, err := bed.Exec(ctx, node, argv...); err == nil {
			found = append(found, strings.Join(argv, " "))
		}
	}
	return found
}

// reinstall applies the product again and waits until it is ready. It is no error if the product exists already.
func reinstall(t *testing.T) {
	t.Helper()
	for _, args := range [][]string{
		append([]string{"apply"}, manifests(t, "default")...),
		{"-n", "weft-system", "rollout", "status", "--timeout=60s", "daemonset/weft-agent"},
		{"wait", "--for=condition=Ready", "--timeout=60s", "node", "--all"},
		{"wait", "--for=condition=Ready", "--timeout=60s", "clusternetwork/default"},
	} {
		if _, err := bed.Kubectl(cleanup(), args...); err != nil {
			t.Error(err)
		}
	}
}
