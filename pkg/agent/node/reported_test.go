package node

import (
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/agent/desired"
)

// newAPI returns a client of an API server with NodeNetwork n1, and a function that reads n1.
func newAPI(t *testing.T) (c client.Client, read func() *networkv1alpha1.NodeNetwork) {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := networkv1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	nn := &networkv1alpha1.NodeNetwork{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}
	c = fake.NewClientBuilder().WithScheme(scheme).WithObjects(nn).WithStatusSubresource(nn).Build()
	return c, func() *networkv1alpha1.NodeNetwork {
		var nn networkv1alpha1.NodeNetwork
		if err := c.Get(t.Context(), client.ObjectKey{Name: "n1"}, &nn); err != nil {
			t.Fatal(err)
		}
		return &nn
	}
}

// The operator has a condition in the same list. A report that is based on an older list must not remove it.
func TestReportKeepsTheOperatorsCondition(t *testing.T) {
	c, read := newAPI(t)
	stale, operators := read(), read()
	meta.SetStatusCondition(&operators.Status.Conditions, metav1.Condition{
		Type: networkv1alpha1.ConditionTopologyReady, Status: metav1.ConditionTrue, Reason: "AsExpected",
	})
	if err := c.Status().Update(t.Context(), operators); err != nil {
		t.Fatal(err)
	}
	r := &Reconciler{Client: c}
	if err := r.report(t.Context(), stale, desired.Health{}); !apierrors.IsConflict(err) {
		t.Errorf("a stale report returned %v, want a conflict", err)
	}
	if err := r.report(t.Context(), read(), desired.Health{}); err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{networkv1alpha1.ConditionReady, networkv1alpha1.ConditionTopologyReady} {
		if !meta.IsStatusConditionTrue(read().Status.Conditions, kind) {
			t.Errorf("%s is lost: %+v", kind, read().Status.Conditions)
		}
	}
}

// A report does not wait for the cache. It is based on the version that this agent wrote last.
func TestReportsAreComparedWithWhatWasWritten(t *testing.T) {
	c, read := newAPI(t)
	r := &Reconciler{Client: c}
	report := func(cached *networkv1alpha1.NodeNetwork, pods int32) {
		t.Helper()
		health := desired.Health{}
		health.Status.Pods = pods
		if err := r.report(t.Context(), r.reported.latest(cached), health); err != nil {
			t.Fatal(err)
		}
		if got := read().Status.Pods; got != pods {
			t.Errorf("%d pods are reported, want %d", got, pods)
		}
	}
	report(read(), 2)
	cached := read()
	for _, pods := range []int32{1, 2, 3, 2} { // while the cache is behind
		report(cached, pods)
	}
	report(read(), 4)
	changed := read()
	changed.Labels = map[string]string{"by": "somebody"}
	if err := c.Update(t.Context(), changed); err != nil {
		t.Fatal(err)
	}
	report(read(), 5)
}
