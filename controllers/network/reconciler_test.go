package network_test

import (
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/controllers/kind"
	"github.com/weft-network/weft/controllers/network"
	"github.com/weft-network/weft/pkg/ipam/alloc"
	"github.com/weft-network/weft/pkg/topology"
	"github.com/weft-network/weft/test/kindtest"
)

// A Network says which pods keep interfaces that its spec would not give them, and which have an address of a machine.
func TestConditionsOfANetworkInUse(t *testing.T) {
	const expected = networkv1alpha1.ReasonAsExpected
	red := &metav1.LabelSelector{MatchLabels: map[string]string{"team": "red"}}
	for name, c := range map[string]struct {
		topology   networkv1alpha1.NetworkTopology
		namespaces *metav1.LabelSelector
		attached   map[string]int // namespace -> interfaces
		reason     string
		message    []string
	}{
		"nobody attached":  {namespaces: red, reason: expected},
		"selected":         {namespaces: red, attached: map[string]int{"a": 2}, reason: expected},
		"a gone namespace": {namespaces: red, attached: map[string]int{"gone": 2}, reason: expected},
		"not on a segment": {namespaces: red, reason: expected},
		"not selected": {namespaces: red, attached: map[string]int{"a": 2, "b": 3},
			reason: networkv1alpha1.ReasonNamespacesInUse, message: []string{": b (3).", "delete"}},
		"nothing selected": {attached: map[string]int{"a": 2, "b": 3},
			reason: networkv1alpha1.ReasonNamespacesInUse, message: []string{": a (2), b (3)."}},
		"a machine's address": {topology: networkv1alpha1.TopologyLocalnet, namespaces: red, attached: map[string]int{"b": 1},
			reason: networkv1alpha1.ReasonAddressConflict, message: []string{"pod a/web has address 10.100.0.9, which belongs to node n7",
				"pod a/web has address 10.100.0.9, which belongs to EgressIP out",
				"pod a/web has MAC 52:54:00:00:00:09, which belongs to node n8"}},
	} {
		t.Run(name, func(t *testing.T) {
			n := &networkv1alpha1.Network{ObjectMeta: metav1.ObjectMeta{Name: "blue", UID: "u"}}
			n.Spec = networkv1alpha1.NetworkSpec{Topology: networkv1alpha1.TopologyLayer2, Namespaces: c.namespaces,
				Subnets: []networkv1alpha1.NetworkSubnet{{CIDR: "10.100.0.0/24"}}}
			if c.topology != "" {
				n.Spec.Topology, n.Spec.PhysicalNetwork = c.topology, networkv1alpha1.GatewayPhysicalNetwork
			}
			addresses := alloc.NewSet(time.Now)
			subnet := netip.MustParsePrefix("10.100.0.0/24")
			addresses.Of("blue").SetPools("*", []alloc.Pool{{Subnet: subnet, Whole: true}})
			if _, err := addresses.Of("blue").Claim("*", "a/web/u/net1/h", alloc.Assignment{
				Addresses: []netip.Prefix{netip.MustParsePrefix("10.100.0.9/24")}, MAC: net.HardwareAddr{0x52, 0x54, 0, 0, 0, 9}}); err != nil {
				t.Fatal(err)
			}
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n7"}}
			node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.100.0.9"}}
			prepare := func(env *kind.Env) {
				env.NetworkAddresses = addresses
				env.Attached = func(string) (map[string]int, bool) { return c.attached, true }
			}
			nn := &networkv1alpha1.NodeNetwork{ObjectMeta: metav1.ObjectMeta{Name: "n8"}}
			nn.Status.Gateway = &networkv1alpha1.NodeGatewayStatus{MACAddress: "52:54:00:00:00:09"}
			egress := &networkv1alpha1.EgressIP{ObjectMeta: metav1.ObjectMeta{Name: "out"}}
			egress.Spec.EgressIPs = []networkv1alpha1.EgressAddress{"10.100.0.9"}
			b := kindtest.New(t, network.Kinds, topology.KindPodNetwork, prepare, n, node, nn, egress,
				&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: map[string]string{"team": "red"}}},
				&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "b", Labels: map[string]string{"team": "blue"}}})
			outcome := b.Reconcile("", "blue")
			got := kindtest.Get(b, &networkv1alpha1.Network{ObjectMeta: metav1.ObjectMeta{Name: "blue"}})
			ready := meta.FindStatusCondition(got.Status.Conditions, networkv1alpha1.ConditionReady)
			good := c.reason != networkv1alpha1.ReasonAddressConflict
			if ready == nil || (ready.Status == metav1.ConditionTrue) != good || ready.Reason != c.reason {
				t.Fatalf("condition %+v, want %s", ready, c.reason)
			}
			for _, part := range c.message {
				if !strings.Contains(ready.Message, part) {
					t.Errorf("message %q, want %q in it", ready.Message, part)
				}
			}
			recorded := slices.ContainsFunc(outcome.Events, func(event string) bool { return strings.Contains(event, c.reason) })
			if recorded != (c.reason != expected) {
				t.Errorf("events %q", outcome.Events)
			}
			for _, interfaces := range c.attached {
				got.Status.Attachments -= int32(interfaces)
			}
			if got.Status.Attachments != 0 {
				t.Errorf("status.attachments is off by %d", got.Status.Attachments)
			}
		})
	}
}
