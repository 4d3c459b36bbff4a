package facts_test

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/facts"
)

func TestOwnerOfAGatewaysAddress(t *testing.T) {
	node := func(name string, internal ...string) corev1.Node {
		n := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
		for _, a := range internal {
			n.Status.Addresses = append(n.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: a})
		}
		return n
	}
	claim := func(name string, age int64, addresses ...networkv1alpha1.InterfaceAddress) networkv1alpha1.NodeNetwork {
		nn := networkv1alpha1.NodeNetwork{ObjectMeta: metav1.ObjectMeta{Name: name,
			CreationTimestamp: metav1.NewTime(time.Unix(1000-age, 0))}}
		nn.Status.Gateway = &networkv1alpha1.NodeGatewayStatus{Addresses: addresses}
		return nn
	}
	nodes := []corev1.Node{node("n1", "172.18.0.11", "fd00:18::11"), node("n2", "172.18.0.12"), node("n3", "172.18.0.12")}
	for name, test := range map[string]struct {
		claim  networkv1alpha1.NodeNetwork
		others []networkv1alpha1.NodeNetwork
		want   string
	}{
		"its own": {claim("n1", 1, "172.18.0.11/24", "fd00:18::11/64"), nil, ""},
		"its own, whoever else claims it": {claim("n1", 1, "172.18.0.11/24"),
			[]networkv1alpha1.NodeNetwork{claim("n2", 9, "172.18.0.11/24")}, ""},
		"another node's": {claim("n2", 9, "172.18.0.11/24"), nil,
			"172.18.0.11 of node n2's gateway is an InternalIP of node n1"},
		"of the second family": {claim("n2", 9, "172.18.0.12/24", "fd00:18::11/64"), nil,
			"fd00:18::11 of node n2's gateway is an InternalIP of node n1"},
		"two Nodes have it": {claim("n3", 1, "172.18.0.12/24"), nil, ""},
		"unclaimed": {claim("n1", 1, "172.19.0.5/24"),
			[]networkv1alpha1.NodeNetwork{claim("n2", 9, "172.19.0.6/24")}, ""},
		"another gateway's": {claim("n1", 1, "172.19.0.5/24"),
			[]networkv1alpha1.NodeNetwork{claim("n2", 9, "172.19.0.5/24")},
			"172.19.0.5 of node n1's gateway is already an address of node n2's gateway"},
		"the older one's": {claim("n2", 9, "172.19.0.5/24"), []networkv1alpha1.NodeNetwork{claim("n1", 1, "172.19.0.5/24")}, ""},
		"of the same age": {claim("n2", 1, "172.19.0.5/24"),
			[]networkv1alpha1.NodeNetwork{claim("n1", 1, "172.19.0.5/24")}, "node n1's gateway"},
		"no gateway": {networkv1alpha1.NodeNetwork{}, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := facts.Usurped(&test.claim, nodes, append(test.others, test.claim))
			if (got == "") != (test.want == "") || !strings.Contains(got, test.want) {
				t.Errorf("%q, want %q", got, test.want)
			}
		})
	}
}
