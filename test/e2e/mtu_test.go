//go:build e2e

package e2e

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

// TestALinkBecomesSmaller checks that the pods of all nodes, including running pods, follow the smallest link, so
// that no packet of a pod is lost. ClusterNetwork names the node with that link. Everything returns to normal when
// the link does.
func TestALinkBecomesSmaller(t *testing.T) {
	here, there := bed.peerPod("mtu-1", "n1"), bed.peerPod("mtu-2", "n2")
	bed.run(t, here, there)
	usual := clusterMTU(t)
	const smaller = 60
	link := usual + networkv1alpha1.GeneveOverheadIPv4
	setLink := func(mtu int) {
		bed.mustExec(t, "n2", "ovs-vsctl", "set", "Interface", bed.bridge(), fmt.Sprintf("mtu_request=%d", mtu))
	}
	t.Cleanup(func() {
		_, _ = bed.Exec(cleanup(), "n2", "ovs-vsctl", "set", "Interface", bed.bridge(), fmt.Sprintf("mtu_request=%d", link))
	})

	setLink(link - smaller)
	took := eventually(t, recoveryTimeout, func() error { return bed.podsHaveMTU(t, usual-smaller) })
	t.Logf("both pods had MTU %d after %s", usual-smaller, milliseconds(took))
	testMTU(t, here, address(t, there, is4))
	testMTU(t, there, address(t, here, is6))
	if said := bed.degraded(t); !strings.Contains(said, networkv1alpha1.ReasonMTUMismatch) ||
		!strings.Contains(said, fmt.Sprintf("n2 (%d)", usual-smaller)) {
		t.Errorf("Degraded is %q", said)
	}

	setLink(link)
	eventually(t, recoveryTimeout, func() error { return bed.podsHaveMTU(t, usual) })
	testMTU(t, here, address(t, there, is4))
	if said := bed.degraded(t); said != networkv1alpha1.ReasonAsExpected+": nothing is wrong" {
		t.Errorf("Degraded is %q", said)
	}
}

func (b *testbed) podsHaveMTU(t *testing.T, want int) error {
	t.Helper()
	if have := clusterMTU(t); have != want {
		return fmt.Errorf("ClusterNetwork has MTU %d, want %d", have, want)
	}
	for _, name := range []string{"mtu-1", "mtu-2"} {
		out, err := b.Kubectl(t.Context(), "-n", namespace, "exec", name, "--", "cat", "/sys/class/net/eth0/mtu")
		if err != nil {
			return err
		}
		if have := strings.TrimSpace(string(out)); have != fmt.Sprint(want) {
			return fmt.Errorf("pod %s has MTU %s, want %d", name, have, want)
		}
	}
	return nil
}

// degraded returns reason and message of the ClusterNetwork's condition Degraded.
func (b *testbed) degraded(t *testing.T) string {
	t.Helper()
	var cn networkv1alpha1.ClusterNetwork
	must(t, b.api.Get(t.Context(), types.NamespacedName{Name: networkv1alpha1.ClusterNetworkName}, &cn))
	c := meta.FindStatusCondition(cn.Status.Conditions, networkv1alpha1.ConditionDegraded)
	if c == nil {
		return ""
	}
	return c.Reason + ": " + c.Message
}
