package node

import (
	"net/netip"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/ipam/alloc"
)

// A NodeNetwork that was deleted while no process ran is made again with the subnet of the node's pods, also if other nodes choose first.
func TestPodsOfADeletedNodeNetworkKeepItsSubnet(t *testing.T) {
	r, _, _, _ := small(t)
	addresses := alloc.New(time.Now)
	addresses.ClaimLater("n3", "pod/a/p", []netip.Addr{netip.MustParseAddr("10.244.0.3")}, alloc.Assignment{Slot: 20})
	r.Addresses = addresses
	reconciled(t, r, "n1", "n2", "n3")
	if other := networkOf(t, r, "n1"); other == nil || other.Spec.PodSubnets[0] != "10.244.0.8/29" {
		t.Errorf("the node that came first has %+v", other)
	}
	if networkOf(t, r, "n2") != nil {
		t.Error("there is room for three nodes")
	}
	if again := networkOf(t, r, "n3"); again == nil || again.Spec.PodSubnets[0] != "10.244.0.0/29" {
		t.Errorf("the node of the pod has %+v", again)
	}
	if _, had, ok := addresses.Get("pod/a/p"); !ok || had.Addresses[0].Addr() != netip.MustParseAddr("10.244.0.3") {
		t.Errorf("the pod has %v", had)
	}
}

// A NodeNetwork that is deleted after the addresses were restored, and before its node is reconciled, is made again as it was.
func TestARestoredNodeNetworkIsMadeAgain(t *testing.T) {
	r, _, _, _ := small(t)
	r.restored(&networkv1alpha1.NodeNetwork{ObjectMeta: metav1.ObjectMeta{Name: "n3"},
		Spec: networkv1alpha1.NodeNetworkSpec{NodeID: 7, PodSubnets: []networkv1alpha1.CIDR{"10.244.0.0/29"}}})
	reconciled(t, r, "n1", "n3")
	if other := networkOf(t, r, "n1"); other == nil || other.Spec.PodSubnets[0] != "10.244.0.8/29" {
		t.Errorf("the node that came first has %+v", other)
	}
	again := networkOf(t, r, "n3")
	if again == nil || again.Spec.NodeID != 7 || again.Spec.PodSubnets[0] != "10.244.0.0/29" {
		t.Fatalf("the node has %+v", again)
	}
	r.restored(&networkv1alpha1.NodeNetwork{ObjectMeta: metav1.ObjectMeta{Name: "n3"},
		Spec: networkv1alpha1.NodeNetworkSpec{NodeID: 9}}) // older than what this process has chosen
	if err := r.Client.Delete(t.Context(), again); err != nil {
		t.Fatal(err)
	}
	reconciled(t, r, "n3")
	if again := networkOf(t, r, "n3"); again.Spec.NodeID != 7 {
		t.Errorf("it is made again as %+v", again.Spec)
	}
}

// A node gets no subnet with the floating address of a port, which its pod may keep without a FloatingIP for a while.
func TestSubnetsLeaveOutTheAddressesOfPorts(t *testing.T) {
	r, _, _, _ := small(t)
	addresses := alloc.New(time.Now)
	addresses.Hold("pod/a/p", []netip.Addr{netip.MustParseAddr("10.244.0.3"), netip.MustParseAddr("192.0.2.1")})
	r.Addresses = addresses
	reconciled(t, r, "n1", "n2")
	if one := networkOf(t, r, "n1"); one == nil || one.Spec.PodSubnets[0] != "10.244.0.8/29" {
		t.Errorf("the first node has %+v", one)
	}
	if networkOf(t, r, "n2") != nil {
		t.Error("a node has the subnet of the port's address")
	}
	addresses.Release("pod/a/p")
	reconciled(t, r, "n2")
	if two := networkOf(t, r, "n2"); two == nil || two.Spec.PodSubnets[0] != "10.244.0.0/29" {
		t.Errorf("the second node has %+v", two)
	}
}
