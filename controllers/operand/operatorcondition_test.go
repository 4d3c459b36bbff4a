package operand

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

// olm is an API server with the OperatorCondition of a ClusterServiceVersion.
type olm struct {
	client.Client
	*testing.T
	reconciler *OperatorCondition
	writes     int
}

func newOLM(t *testing.T, conditions ...any) *olm {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := networkv1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	o := &olm{T: t}
	object := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"conditions": conditions,
		"overrides": []any{map[string]any{"type": "Upgradeable", "status": "True"}}}}}
	object.SetGroupVersionKind(operatorCondition)
	object.SetNamespace("weft-system")
	object.SetName("weft.v1")
	o.Client = fake.NewClientBuilder().WithScheme(scheme).WithObjects(object).WithInterceptorFuncs(interceptor.Funcs{
		Patch: func(ctx context.Context, api client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
			o.writes++
			return api.Patch(ctx, obj, patch, opts...)
		}}).Build()
	o.reconciler = &OperatorCondition{Client: o.Client, Live: o.Client,
		Object: types.NamespacedName{Namespace: "weft-system", Name: "weft.v1"},
		Now:    func() time.Time { return time.Unix(1000, 0) }}
	return o
}

// after reconciles, and returns the object's conditions as "type status reason message".
func (o *olm) after() (found []string) {
	o.Helper()
	if _, err := o.reconciler.Reconcile(o.Context(), reconcile.Request{NamespacedName: types.NamespacedName{
		Name: networkv1alpha1.ClusterNetworkName}}); err != nil {
		o.Fatal(err)
	}
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(operatorCondition)
	if err := o.Get(o.Context(), o.reconciler.Object, object); err != nil {
		o.Fatal(err)
	}
	conditions, err := conditionsOf(object)
	if err != nil {
		o.Fatal(err)
	}
	for _, c := range conditions {
		found = append(found, c.Type+" "+string(c.Status)+" "+c.Reason+" "+c.Message)
	}
	if overrides, _, err := unstructured.NestedSlice(object.Object, "spec", "overrides"); err != nil || len(overrides) != 1 {
		o.Errorf("the administrator's overrides are %v, %v", overrides, err)
	}
	return found
}

func TestOLMLearnsWhetherItMayUpgrade(t *testing.T) {
	const foreign = "Extra True Fine "
	o := newOLM(t, map[string]any{"type": "Extra", "status": "True", "reason": "Fine", "message": "",
		"lastTransitionTime": "2026-01-01T00:00:00Z"})
	want := func(what, condition string) {
		t.Helper()
		if diff := cmp.Diff([]string{foreign, condition}, o.after()); diff != "" {
			t.Errorf("%s (-want +have):\n%s", what, diff)
		}
	}
	want("without a ClusterNetwork", "Upgradeable True AsExpected ")
	cn := &networkv1alpha1.ClusterNetwork{ObjectMeta: metav1.ObjectMeta{Name: networkv1alpha1.ClusterNetworkName}}
	cn.Status.Conditions = []metav1.Condition{{Type: networkv1alpha1.ConditionUpgradeable, Status: metav1.ConditionFalse,
		Reason: networkv1alpha1.ReasonServiceNetworkMismatch, Message: "spec.serviceNetwork lacks 10.97.0.0/16"}}
	if err := o.Create(t.Context(), cn); err != nil {
		t.Fatal(err)
	}
	want("a problem", "Upgradeable False ServiceNetworkMismatch spec.serviceNetwork lacks 10.97.0.0/16")
	want("the same problem", "Upgradeable False ServiceNetworkMismatch spec.serviceNetwork lacks 10.97.0.0/16")
	if o.writes != 2 {
		t.Errorf("%d writes, want one for each change", o.writes)
	}
}

// OLM may be removed while the operator stays.
func TestAnOperatorThatOLMNoLongerManages(t *testing.T) {
	o := newOLM(t)
	o.reconciler.Object.Name = "weft.v0"
	if _, err := o.reconciler.Reconcile(t.Context(), reconcile.Request{}); err != nil || o.writes > 0 {
		t.Errorf("%d writes, %v", o.writes, err)
	}
}
