package cli

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/kubectl/cli"
)

// roll writes the status of a Deployment as its controller does, with pods of the present template that are available.
func roll(t *testing.T, d *appsv1.Deployment, available int32) {
	t.Helper()
	if err := api.Get(t.Context(), client.ObjectKeyFromObject(d), d); err != nil {
		t.Fatal(err)
	}
	d.Status = appsv1.DeploymentStatus{ObservedGeneration: d.Generation, Replicas: 1, UpdatedReplicas: 1, ReadyReplicas: available,
		AvailableReplicas: available}
	if err := api.Status().Update(t.Context(), d); err != nil {
		t.Fatal(err)
	}
}

// rollouts edits the Deployment of weft-operands while the ClusterNetwork's status is good.
func rollouts(t *testing.T) {
	operands := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: "weft-operands"}}
	good := ofComponent("operator", "weft-operator-x", corev1.ContainerStatus{Ready: true})
	good.Spec.Containers[0].Image = "weft:v1"
	create(t, good)
	now := metav1.NowMicro()
	create(t, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: "weft-operator"},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: new(string(good.UID)), RenewTime: &now}})
	cn := &networkv1alpha1.ClusterNetwork{}
	if err := api.Get(t.Context(), client.ObjectKey{Name: "default"}, cn); err != nil {
		t.Fatal(err)
	}
	before := cn.DeepCopy()
	cn.Status.ObservedGeneration = cn.Generation
	for _, kind := range []string{networkv1alpha1.ConditionReady, networkv1alpha1.ConditionAvailable} {
		cn.Status.Conditions = append(cn.Status.Conditions, metav1.Condition{Type: kind, Status: metav1.ConditionTrue,
			Reason: networkv1alpha1.ReasonAsExpected, LastTransitionTime: metav1.Now()})
	}
	if err := operator.Status().Patch(t.Context(), cn, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	weft(t, different, []string{"status"}, "The network is progressing",
		"RolloutIncomplete: Deployment/weft-operands", "Kubernetes has not seen its present spec yet")
	roll(t, operands, 1)
	weft(t, fine, []string{"status"}, "The network is healthy")
	weft(t, fine, []string{"status", "--wait", "--timeout=1s"}, "The network is healthy")

	kubectl(t, "-n", system, "set", "image", "deployment/weft-operands", "operands=weft:nope")
	weft(t, different, []string{"status", "--wait", "--timeout=1s"}, "Kubernetes has not seen its present spec yet")
	bad := ofComponent("operands", "weft-operands-y", corev1.ContainerStatus{State: corev1.ContainerState{
		Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff", Message: `Back-off pulling image "weft:nope"`}}})
	create(t, bad)
	roll(t, operands, 0)
	weft(t, different, []string{"status", "--wait", "--timeout=1s"}, "Degraded, RolloutStopped: Deployment/weft-operands",
		"weft-operands: 0 of 1 pods are available; pod weft-operands-y is in ImagePullBackOff", "describe pod weft-operands-y")
	if err := api.Get(t.Context(), client.ObjectKeyFromObject(bad), bad); err != nil {
		t.Fatal(err)
	}
	bad.Status.ContainerStatuses = ofComponent("operands", "", corev1.ContainerStatus{Ready: true}).Status.ContainerStatuses
	if err := api.Status().Update(t.Context(), bad); err != nil {
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	ended := make(chan int)
	go func() {
		ended <- cli.Run([]string{"--kubeconfig", kubeconfig, "status", "--wait", "--timeout=1m"}, strings.NewReader(""), &out, &errs)
	}()
	select {
	case code := <-ended:
		t.Errorf("status --wait ends before the rollout, with exit code %d:\n%s", code, &out)
	case <-time.After(time.Second): // it may only end too late
	}
	roll(t, operands, 1)
	if code := <-ended; code != fine {
		t.Errorf("exit code %d:\n%s%s", code, &out, &errs)
	}
	t.Run("objects", unobserved)
}

// unobserved applies an IPPool that no operator has judged, which is refused later.
func unobserved(t *testing.T) {
	pool := &networkv1alpha1.IPPool{ObjectMeta: metav1.ObjectMeta{Name: "web"}}
	pool.Spec.Location, pool.Spec.Ranges = networkv1alpha1.LocationNAT, []networkv1alpha1.IPPoolRange{{Addresses: "10.50.0.10-10.50.0.20"}}
	if err := api.Create(t.Context(), pool); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := api.Delete(context.Background(), pool); err != nil {
			t.Error(err)
		}
	}()
	weft(t, different, []string{"status"}, "NotObserved: IPPool/web")
	judged := pool.DeepCopy()
	judged.Status.Conditions = []metav1.Condition{{Type: networkv1alpha1.ConditionReady, Status: metav1.ConditionFalse,
		Reason: networkv1alpha1.ReasonRangeOverlaps, Message: "10.50.0.10 is of another pool", ObservedGeneration: pool.Generation,
		LastTransitionTime: metav1.Now()}}
	if err := operator.Status().Patch(t.Context(), judged, client.MergeFrom(pool)); err != nil {
		t.Fatal(err)
	}
	weft(t, different, []string{"status"}, "Degraded, RangeOverlaps: IPPool/web", "10.50.0.10 is of another pool")
	weft(t, failed, []string{"status", "--as=jane"}, `cannot get resource "clusternetworks"`,
		"the ClusterRole weft-reader grants it: kubectl create clusterrolebinding")
}
