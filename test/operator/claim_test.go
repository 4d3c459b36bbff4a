package operator

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

// claims reports a gateway in Local mode with these addresses.
func (w *world) claims(node string, addresses ...networkv1alpha1.InterfaceAddress) {
	w.Helper()
	w.until(func() error {
		nn := w.nodeNetwork(node)
		patch := client.MergeFromWithOptions(nn.DeepCopy(), client.MergeFromWithOptimisticLock{})
		nn.Status.Gateway = &networkv1alpha1.NodeGatewayStatus{Mode: networkv1alpha1.GatewayLocal, Addresses: addresses}
		err := api.Status().Patch(w.Context(), nn, patch)
		if err != nil && !apierrors.IsConflict(err) {
			w.Fatal(err)
		}
		return err
	})
}

// hasAddress waits until OVN has an address for the node itself.
func (w *world) hasAddress(node, address string) {
	w.Helper()
	w.until(func() error {
		got := w.nb.Ctl("--bare", "--columns=variables", "find", "Chassis_Template_Var", "chassis=chassis-"+node)
		if !strings.Contains(got, "NODEIP_IPv4_0=\""+address+"\"") && !strings.Contains(got, "NODEIP_IPv4_0="+address+" ") {
			return fmt.Errorf("for node %s OVN has %q, want the address %s", node, got, address)
		}
		return nil
	})
}

func (w *world) accepted(node, reason string, status metav1.ConditionStatus) {
	w.Helper()
	w.until(func() error {
		return condition(w.nodeNetwork(node).Status.Conditions, networkv1alpha1.ConditionGatewayAccepted, reason, status)
	})
}

// TestAGatewayHasNoAddressOfAnotherNode checks that a gateway keeps its previous addresses, its NodeNetwork names
// the owner of the claimed address, and the gateway takes the address when it is released.
func TestAGatewayHasNoAddressOfAnotherNode(t *testing.T) {
	w := newWorld(t)
	w.start()
	w.network(dualStack()...)
	w.join("n1", "n2")
	n2 := w.node("n2")
	patched := n2.DeepCopy()
	patched.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "172.18.0.12"}}
	w.must(api.Status().Patch(t.Context(), patched, client.MergeFrom(n2)))
	w.claims("n1", "172.18.0.11/24")
	w.claims("n2", "172.18.0.12/24")
	w.hasAddress("n1", "172.18.0.11")
	w.hasAddress("n2", "172.18.0.12")

	w.claims("n1", "172.18.0.12/24")
	w.accepted("n1", networkv1alpha1.ReasonAddressConflict, metav1.ConditionFalse)
	w.hasAddress("n1", "172.18.0.11")
	w.claims("n1", "172.18.0.13/24")
	w.accepted("n1", networkv1alpha1.ReasonAsExpected, metav1.ConditionTrue)
	w.hasAddress("n1", "172.18.0.13")

	// An address that is no Node's belongs to the older NodeNetwork until it is released.
	older, younger := "n1", "n2"
	if a, b := w.nodeNetwork("n1"), w.nodeNetwork("n2"); b.CreationTimestamp.Before(&a.CreationTimestamp) {
		older, younger = younger, older
	}
	w.claims(older, "172.19.0.5/24")
	w.claims(younger, "172.19.0.5/24")
	w.accepted(younger, networkv1alpha1.ReasonAddressConflict, metav1.ConditionFalse)
	w.claims(older, "172.19.0.6/24")
	w.accepted(younger, networkv1alpha1.ReasonAsExpected, metav1.ConditionTrue)
}
