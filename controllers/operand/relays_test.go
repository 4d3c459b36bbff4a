package operand_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/install/render"
)

// relayBed is a ClusterNetwork whose relays' pods the test plays.
type relayBed struct {
	*testing.T
	cn *networkv1alpha1.ClusterNetwork
}

func (b relayBed) scale(count int32) {
	b.Helper()
	must(b.T, api.Get(b.Context(), client.ObjectKeyFromObject(b.cn), b.cn))
	before := b.cn.DeepCopy()
	b.cn.Spec.Databases.Relays.Count = count
	must(b.T, api.Patch(b.Context(), b.cn, client.MergeFrom(before)))
}

// expect waits for the relays "n2=Ready".
func (b relayBed) expect(want string) {
	b.Helper()
	eventually(b.T, func() error {
		must(b.T, api.Get(b.Context(), client.ObjectKeyFromObject(b.cn), b.cn))
		if have := shownRelays(b.cn.Status.Relays); have != want {
			return fmt.Errorf("relays %q, want %q", have, want)
		}
		return nil
	})
}

// shownRelays returns relays as "n2=Ready n3=Starting".
func shownRelays(relays []networkv1alpha1.RelayStatus) string {
	var words []string
	for _, r := range relays {
		words = append(words, r.Node+"="+string(r.State))
	}
	return strings.Join(words, " ")
}

// pod plays the DaemonSet's controller and kubelet.
func (b relayBed) pod(node string, ready corev1.ConditionStatus) {
	b.Helper()
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "weft-relay-" + node, Labels: map[string]string{
		"app.kubernetes.io/name": "weft", "app.kubernetes.io/component": "relay"}},
		Spec: corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "relay", Image: "weft"}}}}
	if err := api.Create(b.Context(), p); !apierrors.IsAlreadyExists(err) {
		must(b.T, err)
	}
	must(b.T, api.Get(b.Context(), client.ObjectKeyFromObject(p), p))
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}}
	must(b.T, api.Status().Update(b.Context(), p))
}

// nodes returns the nodes that a DaemonSet is bound to, or nil without it.
func (b relayBed) nodes(daemonSet string) (found []string) {
	b.Helper()
	d := &appsv1.DaemonSet{}
	if err := api.Get(b.Context(), own(daemonSet), d); apierrors.IsNotFound(err) {
		return nil
	} else if err != nil {
		b.Fatal(err)
	}
	for _, term := range d.Spec.Template.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
		found = append(found, term.MatchFields[0].Values...)
	}
	return found
}

func (b relayBed) bound(daemonSet string, want ...string) {
	b.Helper()
	eventually(b.T, func() error {
		if have := b.nodes(daemonSet); !slices.Equal(have, want) {
			return fmt.Errorf("%s is bound to %q, want %q", daemonSet, have, want)
		}
		return nil
	})
}

// TestRelays follows relays from none to two, with the loss of one, and back to none: a relay is used only when it is
// ready, and ends only when no node uses it. Without relays there is no object for them.
func TestRelays(t *testing.T) {
	ctx := t.Context()
	must(t, api.DeleteAllOf(ctx, &corev1.Node{})) // earlier tests' nodes would be chosen, too
	for i, name := range []string{"r1", "r2", "r3"} {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
		must(t, api.Create(ctx, n))
		n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: fmt.Sprintf("192.0.2.%d", 11+i)}}
		must(t, api.Status().Update(ctx, n))
	}
	_, stop := start(t)
	cn := &networkv1alpha1.ClusterNetwork{ObjectMeta: metav1.ObjectMeta{Name: "default"}, Spec: networkv1alpha1.ClusterNetworkSpec{
		ClusterNetwork: []networkv1alpha1.ClusterNetworkEntry{{CIDR: "10.244.0.0/16"}},
		ServiceNetwork: []networkv1alpha1.CIDR{"10.96.0.0/16"}}}
	must(t, api.Create(ctx, cn))
	b := relayBed{t, cn}
	eventually(t, func() error { return api.Get(ctx, own(render.Agents), &appsv1.DaemonSet{}) })
	awaitPass(t, render.Agents)
	b.gone(ctx)

	b.scale(2)
	b.expect("r2=Starting r3=Starting")
	b.bound(render.Relays, "r2", "r3")
	b.bound(render.Sources, "r1")
	must(t, api.Get(ctx, own(render.RelaySecret), &corev1.Secret{}))
	b.pod("r2", corev1.ConditionTrue)
	b.pod("r3", corev1.ConditionTrue)
	b.expect("r2=Ready r3=Ready")
	b.pod("r3", corev1.ConditionFalse)
	b.expect("r2=Ready r3=Unavailable")
	eventually(t, func() error { return eventRecorded(ctx, "RelayUnavailable") })
	b.pod("r3", corev1.ConditionTrue)
	b.expect("r2=Ready r3=Ready")

	nn := &networkv1alpha1.NodeNetwork{ObjectMeta: metav1.ObjectMeta{Name: "r1"},
		Spec: networkv1alpha1.NodeNetworkSpec{Relays: []networkv1alpha1.IP{"192.0.2.13", "192.0.2.12"}}}
	must(t, api.Create(ctx, nn))
	b.scale(1)
	b.expect("r2=Ready r3=Leaving")
	awaitPass(t, render.Agents)
	b.bound(render.Relays, "r2", "r3")
	nn.Spec.Relays = []networkv1alpha1.IP{"192.0.2.12"}
	must(t, api.Update(ctx, nn))
	b.expect("r2=Ready")
	b.bound(render.Relays, "r2")

	b.scale(0)
	b.expect("r2=Leaving")
	nn.Spec.Relays = nil
	must(t, api.Update(ctx, nn))
	b.expect("")
	eventually(t, func() error {
		if left := b.left(ctx); left != "" {
			return fmt.Errorf("%s is left", left)
		}
		return nil
	})
	stop()
	must(t, api.Delete(ctx, nn))
	deleteNetwork(t, cn)
	for _, name := range []string{"r1", "r2", "r3"} {
		must(t, api.Delete(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}))
	}
	must(t, api.DeleteAllOf(ctx, &corev1.Pod{}, client.InNamespace(namespace), client.MatchingLabels{"app.kubernetes.io/component": "relay"},
		client.GracePeriodSeconds(0)))
}

// left returns the name of an object for relays, or "".
func (b relayBed) left(ctx context.Context) string {
	b.Helper()
	for name, object := range map[string]client.Object{render.Relays: &appsv1.DaemonSet{}, render.Sources: &appsv1.DaemonSet{},
		render.RelaySecret: &corev1.Secret{}} {
		if err := api.Get(ctx, own(name), object); err == nil {
			return name
		} else if !apierrors.IsNotFound(err) {
			b.Fatal(err)
		}
	}
	return ""
}

func (b relayBed) gone(ctx context.Context) {
	b.Helper()
	if left := b.left(ctx); left != "" {
		b.Errorf("%s exists without relays", left)
	}
}

// TestIKE turns encryption on and off: the IKE daemon's DaemonSet comes and goes.
func TestIKE(t *testing.T) {
	ctx := t.Context()
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "r1"}}
	must(t, api.Create(ctx, n))
	n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "192.0.2.11"}}
	must(t, api.Status().Update(ctx, n))
	_, stop := start(t)
	cn := &networkv1alpha1.ClusterNetwork{ObjectMeta: metav1.ObjectMeta{Name: "default"}, Spec: networkv1alpha1.ClusterNetworkSpec{
		ClusterNetwork: []networkv1alpha1.ClusterNetworkEntry{{CIDR: "10.244.0.0/16"}},
		ServiceNetwork: []networkv1alpha1.CIDR{"10.96.0.0/16"}}}
	must(t, api.Create(ctx, cn))
	eventually(t, func() error { return api.Get(ctx, own(render.Agents), &appsv1.DaemonSet{}) })
	encrypt := func(e networkv1alpha1.Encryption) {
		before := cn.DeepCopy()
		cn.Spec.Encapsulation.Encryption = e
		must(t, api.Patch(ctx, cn, client.MergeFrom(before)))
	}
	encrypt(networkv1alpha1.EncryptionIPsec)
	eventually(t, func() error { return api.Get(ctx, own(render.IKE), &appsv1.DaemonSet{}) })
	encrypt(networkv1alpha1.EncryptionNone)
	eventually(t, func() error {
		err := api.Get(ctx, own(render.IKE), &appsv1.DaemonSet{})
		if !apierrors.IsNotFound(err) {
			return fmt.Errorf("%s is still there: %w", render.IKE, err)
		}
		return nil
	})
	stop()
	deleteNetwork(t, cn)
	must(t, api.Delete(ctx, n))
}
