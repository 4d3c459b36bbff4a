package clusternetwork

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/health"
)

// linked returns a node whose agent reports a link.
func linked(name, encap string, link int32) networkv1alpha1.NodeNetwork {
	return networkv1alpha1.NodeNetwork{ObjectMeta: metav1.ObjectMeta{Name: name},
		Status: networkv1alpha1.NodeNetworkStatus{EncapIP: networkv1alpha1.IP(encap), LinkMTU: link}}
}

func TestEffectiveMTU(t *testing.T) {
	agent := func(encap string, link int32) networkv1alpha1.NodeNetwork {
		return networkv1alpha1.NodeNetwork{Status: networkv1alpha1.NodeNetworkStatus{EncapIP: networkv1alpha1.IP(encap), LinkMTU: link}}
	}
	for _, test := range []struct {
		name           string
		wanted, former int32
		encryption     networkv1alpha1.Encryption
		agents         []networkv1alpha1.NodeNetwork
		want           int32
	}{
		{"no report", 0, 0, "", []networkv1alpha1.NodeNetwork{{}}, 0},
		{"requested before any report", 9000, 0, "", nil, 9000},
		{"requested", 1300, 1442, "", []networkv1alpha1.NodeNetwork{agent("192.0.2.1", 1500)}, 1300},
		{"too large", 9000, 0, "", []networkv1alpha1.NodeNetwork{agent("192.0.2.1", 1500)}, 1442},
		{"too large, and the former one fits", 9000, 1400, "", []networkv1alpha1.NodeNetwork{agent("192.0.2.1", 1500)}, 1400},
		{"too large, as the former one is now", 9000, 9000, "", []networkv1alpha1.NodeNetwork{agent("192.0.2.1", 1500)}, 1442},
		{"IPv4 tunnel", 0, 0, "", []networkv1alpha1.NodeNetwork{agent("192.0.2.1", 1500), {}}, 1442},
		{"IPv6 tunnel", 0, 0, "", []networkv1alpha1.NodeNetwork{agent("2001:db8::1", 1500)}, 1422},
		{"smallest link", 0, 0, "", []networkv1alpha1.NodeNetwork{agent("192.0.2.1", 9000), agent("192.0.2.2", 1400)}, 1342},
		{"the larger overhead wins", 0, 0, "", []networkv1alpha1.NodeNetwork{agent("192.0.2.1", 1490), agent("2001:db8::1", 1500)}, 1422},
		{"encrypted", 0, 0, networkv1alpha1.EncryptionIPsec, []networkv1alpha1.NodeNetwork{agent("192.0.2.1", 1500)}, 1396},
	} {
		t.Run(test.name, func(t *testing.T) {
			cn := &networkv1alpha1.ClusterNetwork{}
			cn.Spec.MTU, cn.Status.MTU, cn.Spec.Encapsulation.Encryption = test.wanted, test.former, test.encryption
			if got := status(cn, statusInput{networks: test.agents}).MTU; got != test.want {
				t.Errorf("MTU is %d, want %d", got, test.want)
			}
		})
	}
}

func TestLinksThatDoNotAgree(t *testing.T) {
	jumbo, usual, small, v6 := linked("jumbo", "192.0.2.1", 9000), linked("usual", "192.0.2.2", 1500),
		linked("small", "192.0.2.3", 1400), linked("v6", "2001:db8::1", 1500)
	for _, test := range []struct {
		name   string
		wanted int32
		nodes  []networkv1alpha1.NodeNetwork
		want   string
	}{
		{"no report", 0, []networkv1alpha1.NodeNetwork{{}}, ""},
		{"all alike", 0, []networkv1alpha1.NodeNetwork{usual, usual, {}}, ""},
		{"different links", 0, []networkv1alpha1.NodeNetwork{jumbo, small, usual},
			"pods have MTU 1342 because of the links of these nodes, others carry up to 8942: small (1342); " +
				"set spec.mtu: 1342 to accept this"},
		{"different overheads", 0, []networkv1alpha1.NodeNetwork{usual, v6},
			"pods have MTU 1422 because of the links of these nodes, others carry up to 1442: v6 (1422); " +
				"set spec.mtu: 1422 to accept this"},
		{"accepted", 1342, []networkv1alpha1.NodeNetwork{jumbo, small, usual}, ""},
		{"too much is requested", 1442, []networkv1alpha1.NodeNetwork{v6, jumbo, small, usual},
			"spec.mtu 1442 is not in effect, because the links of these nodes carry less: small (1342), v6 (1422); " +
				"pods have MTU 1342, and the largest that all links carry is 1342"},
	} {
		t.Run(test.name, func(t *testing.T) {
			cn := &networkv1alpha1.ClusterNetwork{Spec: networkv1alpha1.ClusterNetworkSpec{MTU: test.wanted}}
			if got := mtuMismatch(cn, test.nodes); got != test.want {
				t.Errorf("it says %q, want %q", got, test.want)
			}
		})
	}
}

// TestMTUMismatchDegrades checks that worse problems come first.
func TestMTUMismatchDegrades(t *testing.T) {
	f := statusInput{connected: true, mtu: "links differ"}
	if got := health.Degraded(problemsOf("default", f)); got.Reason != networkv1alpha1.ReasonMTUMismatch || got.Message != "links differ" {
		t.Errorf("Degraded has reason %s: %s", got.Reason, got.Message)
	}
	f.drift = &networkv1alpha1.DriftStatus{Standing: 1}
	if got := health.Degraded(problemsOf("default", f)); got.Reason != networkv1alpha1.ReasonDrift {
		t.Errorf("Degraded has reason %s; want the drift's", got.Reason)
	}
}

func TestChangeOfTheMTUIsReported(t *testing.T) {
	recorder := events.NewFakeRecorder(10)
	r := &Reconciler{Events: recorder}
	for _, step := range []struct {
		was, is  int32
		reported bool
	}{{0, 1442, false}, {1442, 1442, false}, {1442, 1342, true}, {1342, 1442, true}, {1442, 0, false}} {
		cn := &networkv1alpha1.ClusterNetwork{Status: networkv1alpha1.ClusterNetworkStatus{MTU: step.was}}
		r.recordMTU(cn, step.is)
		select {
		case note := <-recorder.Events:
			if !step.reported {
				t.Errorf("%d to %d: %s", step.was, step.is, note)
			}
		default:
			if step.reported {
				t.Errorf("%d to %d is not reported", step.was, step.is)
			}
		}
	}
}
