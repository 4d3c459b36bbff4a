package pod

import (
	"net"
	"net/netip"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/ipam/alloc"
)

// O6: the operator adds at most one annotation of 1 KiB to a pod, however long names are, and only to pods that
// request it. A cluster domain of more than 30 characters and the pod's own dnsConfig come on top. etcd stores the
// annotation and every watcher receives it.
func TestTheRecordOfAPodIsSmall(t *testing.T) {
	const limit = 1 << 10
	for _, test := range []struct{ what, namespace, name, domain string }{
		{"usual names", "shop-production", "checkout-7d9c5b6f4d-x2x5k", "cluster.local"},
		{"the longest names", strings.Repeat("n", 63), strings.Repeat("p", 253), strings.Repeat("d", 30)},
	} {
		t.Run(test.what, func(t *testing.T) {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: test.namespace, Name: test.name,
				UID: "5f3c2c1e-7a38-4d3f-8f0f-0a3f4a4d6b11"}}
			nn := &networkv1alpha1.NodeNetwork{}
			nn.Spec.PodSubnets = []networkv1alpha1.CIDR{"100.100.100.0/24", "fd00:1234:5678:9abc::/64"}
			nn.Spec.Gateways = []networkv1alpha1.IP{"100.100.100.1", "fd00:1234:5678:9abc::1"}
			nn.Spec.MTU = 65000
			nn.Spec.DNS = networkv1alpha1.DNS{Domain: test.domain,
				Nameservers: []networkv1alpha1.IP{"fd00:1234:5678:9abc:def0:1234:5678:9ab1",
					"fd00:1234:5678:9abc:def0:1234:5678:9ab2", "100.100.200.200"}}
			got := alloc.Assignment{MAC: net.HardwareAddr{0x0a, 0x58, 100, 100, 100, 200},
				Addresses: []netip.Prefix{netip.MustParsePrefix("100.100.100.200/24"),
					netip.MustParsePrefix("fd00:1234:5678:9abc:def0:1234:5678:9abc/64")}}
			text, err := vif(pod, nn, got)
			if err != nil {
				t.Fatal(err)
			}
			size := len(networkv1alpha1.PodNetworksAnnotation) + len(text)
			t.Logf("%d bytes: %s", size, text)
			if size > limit {
				t.Errorf("%d bytes, at most %d are allowed", size, limit)
			}
		})
	}
}

// The record of a floating address has the length of an address and the node's gateway of its family.
func TestTheRecordOfAFloatingAddress(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "db-0", UID: "5f3c2c1e"}}
	nn := &networkv1alpha1.NodeNetwork{}
	nn.Spec.PodSubnets = []networkv1alpha1.CIDR{"10.244.1.0/24", "10.250.1.0/24", "fd00:10:244:1::/64"}
	nn.Spec.Gateways = []networkv1alpha1.IP{"10.244.1.1", "10.250.1.1", "fd00:10:244:1::1"}
	nn.Spec.MTU = 1400
	got := alloc.Assignment{MAC: net.HardwareAddr{0x0a, 0x58, 10, 244, 200, 5},
		Addresses: []netip.Prefix{netip.MustParsePrefix("10.244.200.5/32"), netip.MustParsePrefix("fd00:10:244:1::5/64")},
		Floating:  []netip.Addr{netip.MustParseAddr("10.244.200.5")}}
	text, err := vif(pod, nn, got)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`["10.244.200.5/32","fd00:10:244:1::5/64"]`, `["10.244.1.1","fd00:10:244:1::1"]`} {
		if !strings.Contains(text, want) {
			t.Errorf("%s does not contain %s", text, want)
		}
	}
}
