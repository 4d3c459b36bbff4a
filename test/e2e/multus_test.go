//go:build e2e

package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/test/lab/tools"
)

// multusVariable is the environment variable that enables TestUnderMultus, which builds Multus.
const multusVariable = "WEFT_E2E_MULTUS"

// TestUnderMultus installs Multus as the nodes' first CNI plugin. Multus attaches what pods request, by calling Weft for
// the cluster network and for each Network.
func TestUnderMultus(t *testing.T) {
	if os.Getenv(multusVariable) == "" {
		t.Skipf("builds Multus; set %s=1 to run it", multusVariable)
	}
	podNetwork(t, "blue", networkv1alpha1.TopologyLayer2, networkv1alpha1.NetworkSubnet{CIDR: "10.100.0.0/24"},
		networkv1alpha1.NetworkSubnet{CIDR: "fd00:100::/64"})
	setProvider(t, networkv1alpha1.AttachmentProviderMultus)
	t.Cleanup(func() { setProvider(t, networkv1alpha1.AttachmentProviderWeft) })
	installMultus(t)
	one, two := requesting("multus-1", "n1", "blue"), requesting("multus-2", "n2", "blue@data")
	bed.run(t, one, two)
	bed.mustReach(t, one, two)
	eventually(t, readyTimeout, func() error {
		return bed.reach(t.Context(), one, on(t, one, "net1"), targetsAt(two, on(t, two, "data")))
	})
	for _, p := range []*corev1.Pod{one, two} {
		bed.remove(t, p)
	}
	bed.awaitConsistent(t)
}

func setProvider(t *testing.T, provider networkv1alpha1.AttachmentProvider) {
	t.Helper()
	cn := &networkv1alpha1.ClusterNetwork{}
	cn.Name = networkv1alpha1.ClusterNetworkName
	patch := fmt.Sprintf(`{"spec":{"attachmentProvider":%q}}`, provider)
	must(t, bed.api.Patch(cleanup(), cn, client.RawPatch(types.MergePatchType, []byte(patch))))
}

// installMultus makes Multus the first plugin of both nodes. It reads the API server as the lab's administrator.
func installMultus(t *testing.T) {
	t.Helper()
	root, err := tools.SourceRoot()
	must(t, err)
	file := filepath.Join(bed.peerDir, "multus")
	cmd := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-ldflags=-s -w", "-modfile=test/tools/multus/go.mod", "-o", file,
		"gopkg.in/k8snetworkplumbingwg/multus-cni.v4/cmd/multus")
	cmd.Dir, cmd.Env = root, append(os.Environ(), "CGO_ENABLED=0")
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build Multus: %v\n%s", err, text)
	}
	kubeconfig := filepath.Join(bed.peerDir, "multus.kubeconfig")
	text, err := os.ReadFile(bed.KubeConfig())
	must(t, err)
	must(t, os.WriteFile(kubeconfig, text, 0o600))
	const config = `{"cniVersion":"1.0.0","name":"multus-cni-network","type":"multus","kubeconfig":%q,"binDir":"/opt/cni/bin",` +
		`"clusterNetwork":"/etc/cni/net.d/05-weft.conflist"}`
	conflist := filepath.Join(bed.peerDir, "00-multus.conf")
	must(t, os.WriteFile(conflist, fmt.Appendf(nil, config, kubeconfig), 0o600))
	for _, node := range []string{"n1", "n2"} {
		t.Cleanup(func() {
			_, err := bed.Exec(cleanup(), node, "rm", "-f", "/etc/cni/net.d/00-multus.conf", "/opt/cni/bin/multus")
			must(t, err)
		})
		bed.mustExec(t, node, "cp", file, "/opt/cni/bin/multus")
		bed.mustExec(t, node, "cp", conflist, "/etc/cni/net.d/00-multus.conf")
	}
}
