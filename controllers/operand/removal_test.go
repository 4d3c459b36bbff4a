package operand_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/install/render"
)

// confirm writes the annotation that confirms a deletion. An empty value removes the annotation.
func confirm(t *testing.T, cn *networkv1alpha1.ClusterNetwork, value string) {
	t.Helper()
	annotate(t, cn, networkv1alpha1.ConfirmRemovalAnnotation, value)
}

func annotate(t *testing.T, cn *networkv1alpha1.ClusterNetwork, key, value string) {
	t.Helper()
	text := fmt.Sprintf("%q", value)
	if value == "" {
		text = "null"
	}
	must(t, api.Patch(t.Context(), cn, client.RawPatch(types.MergePatchType,
		fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%s}}}`, key, text))))
}

// removing expects the condition Removing, and that the summary conditions agree with it.
func removing(ctx context.Context, reason, message string) error {
	cn := &networkv1alpha1.ClusterNetwork{}
	if err := api.Get(ctx, types.NamespacedName{Name: "default"}, cn); err != nil {
		return err
	}
	c := meta.FindStatusCondition(cn.Status.Conditions, networkv1alpha1.ConditionRemoving)
	if c == nil || c.Status != metav1.ConditionTrue || c.Reason != reason || !strings.Contains(c.Message, message) {
		return fmt.Errorf("condition Removing is %+v, want %s: %s", c, reason, message)
	}
	for _, kind := range []string{networkv1alpha1.ConditionReady, networkv1alpha1.ConditionAvailable,
		networkv1alpha1.ConditionUpgradeable} {
		if begun := reason == networkv1alpha1.ReasonRemovingOperands; meta.IsStatusConditionFalse(cn.Status.Conditions, kind) != begun {
			return fmt.Errorf("the removal has begun: %t, and %s is %+v", begun, kind,
				meta.FindStatusCondition(cn.Status.Conditions, kind))
		}
	}
	return nil
}

// awaitReconciled returns when the product has reconciled: it has restored a Secret. It fails if a workload is being
// deleted.
func awaitReconciled(t *testing.T) {
	t.Helper()
	must(t, api.Delete(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "weft-nb-tls"}}))
	eventually(t, func() error { return all(t.Context()) })
	for name, version := range generations(t) {
		if strings.HasSuffix(version, "deleted") {
			t.Fatalf("%s is deleted", name)
		}
	}
}

// generations returns the UID and generation of each workload.
func generations(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	for name, w := range map[string]client.Object{"weft-central": &appsv1.StatefulSet{},
		"weft-operator": &appsv1.Deployment{}, "weft-agent": &appsv1.DaemonSet{},
		"weft-ovs": &appsv1.DaemonSet{}, "weft-ovn-controller": &appsv1.DaemonSet{}} {
		must(t, api.Get(t.Context(), own(name), w))
		found[name] = fmt.Sprintf("%s %d", w.GetUID(), w.GetGeneration())
		if !w.GetDeletionTimestamp().IsZero() {
			found[name] += " deleted"
		}
	}
	return found
}

// takenBack removes the finalizer and the confirmation, and creates the ClusterNetwork again.
func takenBack(t *testing.T, cn *networkv1alpha1.ClusterNetwork) *networkv1alpha1.ClusterNetwork {
	t.Helper()
	again := &networkv1alpha1.ClusterNetwork{ObjectMeta: metav1.ObjectMeta{Name: cn.Name}, Spec: cn.Spec}
	patch := fmt.Sprintf(`{"metadata":{"finalizers":null,"annotations":{%q:null}}}`, networkv1alpha1.ConfirmRemovalAnnotation)
	must(t, api.Patch(t.Context(), cn, client.RawPatch(types.MergePatchType, []byte(patch))))
	must(t, api.Create(t.Context(), again))
	eventually(t, func() error {
		must(t, api.Get(t.Context(), client.ObjectKeyFromObject(again), again))
		if len(again.Finalizers) != 1 || again.Status.Rollout == nil {
			return fmt.Errorf("the ClusterNetwork has finalizers %q and rollout %v", again.Finalizers, again.Status.Rollout)
		}
		return nil
	})
	if c := meta.FindStatusCondition(again.Status.Conditions, networkv1alpha1.ConditionRemoving); c != nil {
		t.Errorf("the new ClusterNetwork has %+v", c)
	}
	return again
}

// An unconfirmed deletion removes nothing, with or without pods, and can be cancelled. So can a confirmed deletion
// that pods hold.
func TestNothingIsRemovedUnconfirmed(t *testing.T) {
	ctx := t.Context()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "r1"},
		Status: corev1.NodeStatus{Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "192.0.2.1"}}}}
	must(t, api.Create(ctx, node))
	cn := &networkv1alpha1.ClusterNetwork{ObjectMeta: metav1.ObjectMeta{Name: "default"}, Spec: networkv1alpha1.ClusterNetworkSpec{
		ClusterNetwork: []networkv1alpha1.ClusterNetworkEntry{{CIDR: "10.244.0.0/16"}},
		ServiceNetwork: []networkv1alpha1.CIDR{"10.96.0.0/16"}}}
	must(t, api.Create(ctx, cn))
	_, stop := start(t)
	eventually(t, func() error { return all(ctx) })
	before := generations(t)
	must(t, api.Patch(ctx, cn, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))))
	eventually(t, func() error {
		must(t, api.Get(ctx, client.ObjectKeyFromObject(cn), cn))
		if len(cn.Finalizers) != 1 {
			return errors.New("the removed finalizer was not restored")
		}
		return nil
	})

	must(t, api.Delete(ctx, cn))
	eventually(t, func() error {
		return removing(ctx, networkv1alpha1.ReasonWaitingForConfirmation, "confirm-removal="+string(cn.UID)+"; no pod uses the network")
	})
	eventually(t, func() error { return eventRecorded(ctx, networkv1alpha1.ReasonWaitingForConfirmation) })
	awaitReconciled(t)
	for _, value := range []string{"default", "true", string(node.UID)} {
		confirm(t, cn, value)
		awaitReconciled(t)
	}
	stop()
	must(t, api.Delete(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "weft-nb-tls"}}))
	count, stop := start(t)
	eventually(t, func() error { return all(ctx) })
	awaitReconciled(t)
	if n := count.Load(); n != 2 {
		t.Errorf("%d writes after a restart, want 2: a Secret, and once more", n)
	}
	must(t, removing(ctx, networkv1alpha1.ReasonWaitingForConfirmation, ""))

	cn = takenBack(t, cn)
	if n := count.Load(); n != 4 {
		t.Errorf("%d writes until it was taken back, want 4: the finalizer, and the state of the rollout", n)
	}
	awaitReconciled(t)

	// Now confirmed, and held by pods.
	user := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "user"},
		Spec: corev1.PodSpec{NodeName: "r1", Containers: []corev1.Container{{Name: "x", Image: "x"}}}}
	must(t, api.Create(ctx, user))
	confirm(t, cn, string(cn.UID))
	must(t, api.Delete(ctx, cn))
	eventually(t, func() error {
		return removing(ctx, networkv1alpha1.ReasonPodsRemain, "1 pod uses the network: default/user")
	})
	oneSeries(t, cn)
	cn = takenBack(t, cn)
	must(t, api.Delete(ctx, user, client.GracePeriodSeconds(0)))
	awaitReconciled(t)
	if after := generations(t); !maps.Equal(before, after) {
		t.Errorf("workloads are %v, were %v", after, before)
	}
	stoppedHalfway(t, cn)
	stop()
	must(t, api.Delete(ctx, node))
}

// oneSeries makes the product reconcile repeatedly, each time with another version of the ClusterNetwork, and expects
// one event.
func oneSeries(t *testing.T, cn *networkv1alpha1.ClusterNetwork) {
	t.Helper()
	eventually(t, func() error {
		annotate(t, cn, networkv1alpha1.AcceptDifferenceAnnotation, fmt.Sprint(time.Now().UnixNano()))
		var all eventsv1.EventList
		must(t, api.List(t.Context(), &all))
		var found []eventsv1.Event
		for _, e := range all.Items {
			if e.Reason == "PodsRemain" && e.Regarding.UID == cn.UID {
				found = append(found, e)
			}
		}
		if len(found) > 1 {
			t.Fatalf("%d events PodsRemain", len(found))
		}
		if len(found) == 0 || found[0].Series == nil {
			return errors.New("no series of events PodsRemain")
		}
		return nil
	})
}

// stoppedHalfway begins the removal and removes the confirmation, which stops it. Then it lets the removal finish.
func stoppedHalfway(t *testing.T, cn *networkv1alpha1.ClusterNetwork) {
	t.Helper()
	ctx := t.Context()
	confirm(t, cn, string(cn.UID))
	must(t, api.Delete(ctx, cn))
	eventually(t, func() error {
		return removing(ctx, networkv1alpha1.ReasonRemovingOperands, "removing the operator, agents and ovn-controllers")
	})
	confirm(t, cn, "")
	eventually(t, func() error { return removing(ctx, networkv1alpha1.ReasonRemovingOperands, "stopped") })
	collected(t, map[string]client.Object{"weft-operator": &appsv1.Deployment{}, "weft-agent": &appsv1.DaemonSet{},
		"weft-ovn-controller": &appsv1.DaemonSet{}}, func() {})
	confirm(t, cn, "no")
	eventually(t, func() error { return removing(ctx, networkv1alpha1.ReasonRemovingOperands, "stopped") })
	uninstall := &appsv1.DaemonSet{}
	if err := api.Get(ctx, own(render.Uninstall), uninstall); !apierrors.IsNotFound(err) {
		t.Fatalf("%s without a confirmation: %v", render.Uninstall, err)
	}
	confirm(t, cn, string(cn.UID))
	eventually(t, func() error { return api.Get(ctx, own(render.Uninstall), uninstall) })

	// A ClusterNetwork that is recreated in the middle gets a new network, without the removal's workload.
	must(t, api.Patch(ctx, cn, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))))
	again := &networkv1alpha1.ClusterNetwork{ObjectMeta: metav1.ObjectMeta{Name: cn.Name}, Spec: cn.Spec}
	must(t, api.Create(ctx, again))
	collected(t, map[string]client.Object{render.Uninstall: uninstall}, func() {})
	eventually(t, func() error { return all(ctx) })
	must(t, api.Get(ctx, client.ObjectKeyFromObject(again), again))
	removed(t, again, "r1")
}

// removed confirms the deletion of the ClusterNetwork and deletes it. The test acts as the controllers of garbage and
// of DaemonSets.
func removed(t *testing.T, cn *networkv1alpha1.ClusterNetwork, node string) {
	t.Helper()
	ctx := t.Context()
	user := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "user"},
		Spec: corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "x", Image: "x"}}}}
	host := user.DeepCopy()
	host.Name, host.Spec.HostNetwork = "host", true
	must(t, api.Create(ctx, host))
	t.Cleanup(func() {
		if err := api.Delete(context.Background(), host, client.GracePeriodSeconds(0)); err != nil {
			t.Error(err)
		}
	})
	must(t, api.Create(ctx, user))
	confirm(t, cn, string(cn.UID))
	must(t, api.Delete(ctx, cn))
	eventually(t, func() error {
		return removing(ctx, networkv1alpha1.ReasonPodsRemain, "while 1 pod uses the network: default/user")
	})
	eventually(t, func() error { return eventRecorded(ctx, "PodsRemain") })
	must(t, all(ctx))
	must(t, api.Delete(ctx, user, client.GracePeriodSeconds(0)))
	workloads := map[string]client.Object{"weft-operator": &appsv1.Deployment{}, "weft-agent": &appsv1.DaemonSet{},
		"weft-ovn-controller": &appsv1.DaemonSet{}}
	uninstall, switches := &appsv1.DaemonSet{}, &appsv1.DaemonSet{}
	collected(t, workloads, func() { // one after the other; the workload that clears the nodes waits for all of them
		if err := api.Get(ctx, own(render.Uninstall), uninstall); !apierrors.IsNotFound(err) {
			t.Fatalf("%s beside the operands of a new network: %v", render.Uninstall, err)
		}
	})
	eventually(t, func() error { return api.Get(ctx, own(render.Uninstall), uninstall) })
	eventually(t, func() error { return removing(ctx, networkv1alpha1.ReasonRemovingOperands, "DaemonSet weft-uninstall") })
	report := func(ready int32) {
		t.Helper()
		must(t, api.Get(ctx, own(render.Uninstall), uninstall))
		uninstall.Status = appsv1.DaemonSetStatus{ObservedGeneration: uninstall.Generation, DesiredNumberScheduled: 2,
			UpdatedNumberScheduled: 2, NumberReady: ready}
		must(t, api.Status().Update(ctx, uninstall))
	}
	report(1)
	awaitPass(t, render.Uninstall)
	if must(t, api.Get(ctx, own("weft-ovs"), switches)); !switches.DeletionTimestamp.IsZero() {
		t.Fatal("Open vSwitch is removed before a node is cleared")
	}
	report(2)
	collected(t, map[string]client.Object{"weft-ovs": switches, render.Uninstall: uninstall,
		render.Central: &appsv1.StatefulSet{}}, func() {})
	eventually(t, func() error {
		if err := api.Get(ctx, types.NamespacedName{Name: "default"}, cn); !apierrors.IsNotFound(err) {
			return fmt.Errorf("the ClusterNetwork is there: %w, %q", err, cn.Finalizers)
		}
		return nil
	})
	for _, name := range render.SecretNames() {
		if err := api.Get(ctx, own(name), &corev1.Secret{}); !apierrors.IsNotFound(err) {
			t.Errorf("Secret %s: %v, want none", name, err)
		}
	}
}

// collected waits until each workload is being deleted, and lets it go as if its pods had ended.
func collected(t *testing.T, workloads map[string]client.Object, between func()) {
	t.Helper()
	for name, w := range workloads {
		eventually(t, func() error {
			must(t, api.Get(t.Context(), own(name), w))
			if w.GetDeletionTimestamp().IsZero() {
				return fmt.Errorf("%s is not deleted", name)
			}
			return nil
		})
	}
	for _, w := range workloads {
		between()
		w.SetFinalizers(nil)
		must(t, api.Update(t.Context(), w))
	}
}
