//go:build e2e

package e2e

import (
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

// TestEncryptionOfUnsupportedTunnels sets IPsec where nodes have the userspace datapath: the IKE
// daemon's pods start with the rights of the manifest, each node reports why it cannot encrypt, and
// packets go on in the clear. Encrypted packets need the kernel's datapath: pkg/agent/ipsec in make
// check-kernel.
func TestEncryptionOfUnsupportedTunnels(t *testing.T) {
	here, there := bed.peerPod("ike-1", "n1"), bed.peerPod("ike-2", "n2")
	bed.run(t, here, there)
	eventually(t, convergence, func() error { return healthy(t) })
	t.Cleanup(func() { setEncryption(t, networkv1alpha1.EncryptionNone) })
	setEncryption(t, networkv1alpha1.EncryptionIPsec)
	eventually(t, recoveryTimeout, func() error { return ikeDaemons(t, 2) })
	eventually(t, recoveryTimeout, func() error { return mustNotEncrypt(t) })
	bed.mustReach(t, here, there)
	setEncryption(t, networkv1alpha1.EncryptionNone)
	eventually(t, recoveryTimeout, func() error { return ikeDaemons(t, 0) })
	eventually(t, convergence, func() error { return healthy(t) })
	bed.mustReach(t, here, there)
}

// setEncryption sets spec.encapsulation.encryption.
func setEncryption(t *testing.T, encryption networkv1alpha1.Encryption) {
	t.Helper()
	text := fmt.Appendf(nil, `{"spec":{"encapsulation":{"encryption":%q}}}`, encryption)
	cn := &networkv1alpha1.ClusterNetwork{}
	cn.Name = networkv1alpha1.ClusterNetworkName
	must(t, bed.api.Patch(cleanup(), cn, client.RawPatch(types.MergePatchType, text)))
}

// ikeDaemons checks the number of the IKE daemon's pods that are available; 0 means that there is no
// DaemonSet.
func ikeDaemons(t *testing.T, want int32) error {
	var set appsv1.DaemonSet
	err := bed.api.Get(t.Context(), types.NamespacedName{Namespace: "weft-system", Name: "weft-ike"}, &set)
	if client.IgnoreNotFound(err) != nil {
		return err
	}
	if apierrors.IsNotFound(err) != (want == 0) || set.Status.NumberAvailable != want {
		return fmt.Errorf("%d pods of weft-ike are available, %v; want %d", set.Status.NumberAvailable, err, want)
	}
	return nil
}

// mustNotEncrypt checks that each node accepts encrypted packets, that none requires them, and that
// its condition and the cluster's status have the reason.
func mustNotEncrypt(t *testing.T) error {
	var networks networkv1alpha1.NodeNetworkList
	if err := bed.api.List(t.Context(), &networks); err != nil {
		return err
	}
	for _, n := range networks.Items {
		c := meta.FindStatusCondition(n.Status.Conditions, networkv1alpha1.ConditionTunnelsEncrypted)
		if c == nil || c.Reason != networkv1alpha1.ReasonUnsupportedDatapath || n.Spec.Encryption != networkv1alpha1.ProtectionAccepted {
			return fmt.Errorf("%s: spec.encryption %q, condition %+v", n.Name, n.Spec.Encryption, c)
		}
	}
	s, err := faultStatus(t)
	if err != nil {
		return err
	}
	for _, p := range s.Problems {
		if p.Reason == networkv1alpha1.ReasonUnsupportedDatapath && p.Object == "NodeNetwork/n1, NodeNetwork/n2" {
			return nil
		}
	}
	return fmt.Errorf("no problem names the nodes: %+v", s.Problems)
}
