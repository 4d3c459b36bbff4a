package operator

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

// protected waits until nodes have a protection of their tunnels in their spec.
func (w *world) protected(want networkv1alpha1.TunnelProtection, nodes ...string) {
	w.Helper()
	for _, name := range nodes {
		w.until(func() error {
			if have := w.nodeNetwork(name).Spec.Encryption; have != want {
				return fmt.Errorf("node %s has %q, want %q", name, have, want)
			}
			return nil
		})
	}
}

// encrypts reports that a node can encrypt its tunnels.
func (w *world) encrypts(name string) {
	w.Helper()
	w.until(func() error {
		nn := w.nodeNetwork(name)
		patch := client.MergeFromWithOptions(nn.DeepCopy(), client.MergeFromWithOptimisticLock{})
		nn.Status.Encryption = &networkv1alpha1.NodeEncryption{Ready: true}
		return api.Status().Patch(w.Context(), nn, patch)
	})
}

// Nodes require encryption only when each can, a node that joins later requires it at once, and pods' MTU leaves room for it.
func TestEncryption(t *testing.T) {
	w := newWorld(t)
	w.start()
	cn := w.network(dualStack()...)
	w.join("n1", "n2")
	w.protected("", "n1", "n2")
	patch(w, cn, func(cn *networkv1alpha1.ClusterNetwork) {
		cn.Spec.Encapsulation.Encryption = networkv1alpha1.EncryptionIPsec
	})
	w.protected(networkv1alpha1.ProtectionAccepted, "n1", "n2")
	w.status(func(s networkv1alpha1.ClusterNetworkStatus) error {
		if s.MTU != 1500-58-networkv1alpha1.ESPOverhead {
			return fmt.Errorf("MTU is %d", s.MTU)
		}
		return nil
	})
	w.encrypts("n1")
	w.protected(networkv1alpha1.ProtectionAccepted, "n1", "n2")
	w.encrypts("n2")
	w.protected(networkv1alpha1.ProtectionRequired, "n1", "n2")
	w.join("n3")
	w.protected(networkv1alpha1.ProtectionRequired, "n1", "n2", "n3")
	patch(w, cn, func(cn *networkv1alpha1.ClusterNetwork) {
		cn.Spec.Encapsulation.Encryption = networkv1alpha1.EncryptionNone
	})
	w.protected("", "n1", "n2", "n3")
}

// When the only node that cannot encrypt is removed, the others require encryption.
func TestEncryptionWithoutTheNodeThatCannot(t *testing.T) {
	w := newWorld(t)
	w.start()
	cn := w.network(dualStack()...)
	w.join("n1", "n2")
	patch(w, cn, func(cn *networkv1alpha1.ClusterNetwork) {
		cn.Spec.Encapsulation.Encryption = networkv1alpha1.EncryptionIPsec
	})
	w.protected(networkv1alpha1.ProtectionAccepted, "n1", "n2")
	w.encrypts("n1")
	w.delete(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n2"}})
	w.protected(networkv1alpha1.ProtectionRequired, "n1")
}
