//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

// TestBandwidth checks that a pod sends and receives no faster than its annotations allow, close to that rate over
// one TCP connection, and without a limit in a direction that has no annotation.
func TestBandwidth(t *testing.T) {
	const limit, mega = 10e6, 1e6
	limited, free := bed.peerPod("limited", "n1"), bed.peerPod("free", "n2")
	limited.Annotations = map[string]string{networkv1alpha1.IngressBandwidthAnnotation: "10M"}
	twin := bed.peerPod("twin", "n1")
	twin.Annotations = limited.Annotations
	bed.run(t, limited, twin, free)
	expect := func(what string, to, from *corev1.Pod, isLimited bool) {
		t.Helper()
		got := bed.take(t, to, from)
		t.Logf("%s: %.1f Mbit/s, %.1f in the first two seconds", what, got.Rest/mega, got.First/mega)
		switch {
		case isLimited && (got.Rest > 1.1*limit || got.Rest < limit/2):
			t.Errorf("%s: %.1f Mbit/s, want slightly less than 10", what, got.Rest/mega)
		case !isLimited && got.Rest < 2*limit:
			t.Errorf("%s: %.1f Mbit/s, want more, because nothing limits it", what, got.Rest/mega)
		}
	}
	expect("received by a pod with an ingress limit", limited, free, true)
	expect("sent by a pod with an ingress limit", free, limited, false)
	bed.notShared(t, limited, twin, free)
	bed.remove(t, twin)

	patch := `{"metadata":{"annotations":{"kubernetes.io/ingress-bandwidth":null,"kubernetes.io/egress-bandwidth":"10M"}}}`
	must(t, bed.api.Patch(t.Context(), limited, client.RawPatch("application/merge-patch+json", []byte(patch))))
	bed.awaitLimit(t, "from-lport", limited)
	expect("received by a pod with an egress limit", limited, free, false)
	expect("sent by a pod with an egress limit", free, limited, true)
}

// notShared makes two pods with the same limit receive at the same time: each has a limit of its own.
func (b *testbed) notShared(t *testing.T, one, other, from *corev1.Pod) {
	t.Helper()
	second := make(chan taken, 1)
	go func() { defer close(second); second <- b.take(t, other, from) }()
	first := b.take(t, one, from)
	if sum := first.Rest + (<-second).Rest; sum < 15e6 || sum > 22e6 {
		t.Errorf("two pods limited to 10 Mbit/s receive %.1f Mbit/s together, want about 20", sum/1e6)
	}
}

// awaitLimit waits until the pod's limit is the only one in the database and its node applies it.
func (b *testbed) awaitLimit(t *testing.T, direction string, p *corev1.Pod) {
	t.Helper()
	eventually(t, 10*time.Second, func() error {
		rows, err := b.rows(t.Context(), b.central, "ovn-nbctl", "QoS", "direction,match,bandwidth")
		if err != nil {
			return err
		}
		rows = slices.DeleteFunc(rows, func(r row) bool { return len(r.pairs("bandwidth")) == 0 }) // rows that only mark packets
		if len(rows) != 1 || rows[0].text("direction") != direction || !strings.Contains(rows[0].text("match"), portOf(p)) {
			return fmt.Errorf("limits are %v, want only the pod's", rows)
		}
		return nil
	})
	b.mustExec(t, b.central, "ovn-nbctl", "--timeout=20", "--wait=hv", "sync")
}

// taken is the output of peer take, in bits per second.
type taken struct{ First, Rest float64 }

// take receives a pod's stream for some seconds and measures its rate.
func (b *testbed) take(t *testing.T, to, from *corev1.Pod) (got taken) {
	t.Helper()
	source := netip.AddrPortFrom(address(t, from, is4), 8080).String()
	out, err := b.in(t.Context(), to, peerPath, "take", "--from="+source)
	if err == nil {
		err = json.Unmarshal(out, &got)
	}
	if err != nil {
		t.Error(err)
	}
	return got
}
