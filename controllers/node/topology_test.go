package node

import (
	"errors"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/ovndb"
)

func newClient(t *testing.T) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := networkv1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	nn := &networkv1alpha1.NodeNetwork{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(nn).WithStatusSubresource(nn).Build()
}

func read(t *testing.T, c client.Client) *networkv1alpha1.NodeNetwork {
	t.Helper()
	var nn networkv1alpha1.NodeNetwork
	if err := c.Get(t.Context(), client.ObjectKey{Name: "n1"}, &nn); err != nil {
		t.Fatal(err)
	}
	return &nn
}

// Agent and operator write one list of conditions. An operator whose cache lacks the agent's conditions must not
// remove them.
func TestConditionsOfTheAgentAreNotLost(t *testing.T) {
	c := newClient(t)
	stale := read(t, c)
	agents := read(t, c)
	meta.SetStatusCondition(&agents.Status.Conditions,
		metav1.Condition{Type: networkv1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: "AsExpected"})
	if err := c.Status().Update(t.Context(), agents); err != nil {
		t.Fatal(err)
	}
	r := &Reconciler{Client: c}
	if err := r.report(t.Context(), stale, nil, networkv1alpha1.NodeGateway{}, nil); !apierrors.IsConflict(err) {
		t.Errorf("a stale operator's condition gave %v, want a conflict", err)
	}
	if err := r.report(t.Context(), read(t, c), nil, networkv1alpha1.NodeGateway{}, nil); err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{networkv1alpha1.ConditionReady, networkv1alpha1.ConditionTopologyReady} {
		if !meta.IsStatusConditionTrue(read(t, c).Status.Conditions, kind) {
			t.Errorf("%s is lost: %+v", kind, read(t, c).Status.Conditions)
		}
	}
}

func TestTopologyConditionFollowsTheDatabase(t *testing.T) {
	r := &Reconciler{Client: newClient(t)}
	refused := &ovndb.RejectedError{Unit: "node/n1", Err: errors.New("constraint violation: name")}
	written := read(t, r.Client).ResourceVersion
	for _, step := range []struct {
		applied error
		status  metav1.ConditionStatus // empty if the condition is absent
		message string
		writes  bool
	}{
		{&ovndb.PendingError{Unit: "node/n1", Reason: "not connected"}, "", "", false},
		{refused, metav1.ConditionFalse, "constraint violation: name", true},
		{refused, metav1.ConditionFalse, "constraint violation: name", false},
		{&ovndb.PendingError{Unit: "node/n1", Reason: "not connected"}, metav1.ConditionFalse, "constraint violation: name", false},
		{nil, metav1.ConditionTrue, "", true},
		{nil, metav1.ConditionTrue, "", false},
	} {
		if err := r.report(t.Context(), read(t, r.Client), step.applied, networkv1alpha1.NodeGateway{}, nil); err != nil {
			t.Fatal(err)
		}
		now := read(t, r.Client)
		got := meta.FindStatusCondition(now.Status.Conditions, networkv1alpha1.ConditionTopologyReady)
		if (got == nil) != (step.status == "") || got != nil && (got.Status != step.status || got.Message != step.message) {
			t.Errorf("after %v the condition is %+v, want %s %q", step.applied, got, step.status, step.message)
		}
		if wrote := now.ResourceVersion != written; wrote != step.writes {
			t.Errorf("after %v written is %t, want %t", step.applied, wrote, step.writes)
		}
		written = now.ResourceVersion
	}
}
