package operand

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/process/trigger"
)

// operatorCondition is the Operator Lifecycle Manager's object for what an operator reports. OLM replaces no operator
// whose condition Upgradeable is False, and gives each operator the rights to its own object.
var operatorCondition = schema.GroupVersionKind{Group: "operators.coreos.com", Version: "v2", Kind: "OperatorCondition"}

// OperatorCondition copies the condition Upgradeable of the ClusterNetwork to OLM.
type OperatorCondition struct {
	Client client.Client
	Live   client.Reader // OLM grants no right to watch
	// Object is the OperatorCondition's name, as OLM sets it in the environment.
	Object types.NamespacedName
	Now    func() time.Time
}

func (o *OperatorCondition) setup(mgr ctrl.Manager) error {
	if o.Object.Name == "" {
		return nil // not installed by OLM
	}
	return ctrl.NewControllerManagedBy(mgr).Named("operatorcondition").
		For(&networkv1alpha1.ClusterNetwork{}, builder.WithPredicates(trigger.Changed(upgradeableChanged))).
		Complete(trigger.QuietConflicts(o))
}

func upgradeableChanged(before, after *networkv1alpha1.ClusterNetwork) bool {
	return !sameCondition(upgradeable(before), upgradeable(after))
}

// Reconcile implements reconcile.Reconciler.
func (o *OperatorCondition) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	cn := &networkv1alpha1.ClusterNetwork{}
	if err := o.Client.Get(ctx, request.NamespacedName, cn); client.IgnoreNotFound(err) != nil {
		return reconcile.Result{}, err
	}
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(operatorCondition)
	if err := o.Live.Get(ctx, o.Object, object); meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
		return reconcile.Result{}, nil // OLM was removed, and the operator stays
	} else if err != nil {
		return reconcile.Result{}, err
	}
	conditions, err := conditionsOf(object)
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("OperatorCondition %s: %w", o.Object, err)
	}
	want := upgradeable(cn)
	if have := meta.FindStatusCondition(conditions, want.Type); have != nil && sameCondition(*have, want) {
		return reconcile.Result{}, nil
	}
	want.LastTransitionTime = metav1.NewTime(o.Now())
	meta.SetStatusCondition(&conditions, want)
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": object.GetResourceVersion()}, // the list is replaced as a whole
		"spec":     map[string]any{"conditions": conditions}})
	if err != nil {
		return reconcile.Result{}, err
	}
	return reconcile.Result{}, o.Client.Patch(ctx, object, client.RawPatch(types.MergePatchType, patch))
}

// upgradeable returns the condition for OLM. Without a ClusterNetwork, and until its first status, nothing hinders an
// upgrade.
func upgradeable(cn *networkv1alpha1.ClusterNetwork) metav1.Condition {
	if c := meta.FindStatusCondition(cn.Status.Conditions, networkv1alpha1.ConditionUpgradeable); c != nil {
		return metav1.Condition{Type: c.Type, Status: c.Status, Reason: c.Reason, Message: c.Message}
	}
	return metav1.Condition{Type: networkv1alpha1.ConditionUpgradeable, Status: metav1.ConditionTrue,
		Reason: networkv1alpha1.ReasonAsExpected}
}

func sameCondition(a, b metav1.Condition) bool {
	return a.Status == b.Status && a.Reason == b.Reason && a.Message == b.Message
}

// conditionsOf reads spec.conditions of an OperatorCondition.
func conditionsOf(object *unstructured.Unstructured) ([]metav1.Condition, error) {
	var read struct {
		Spec struct {
			Conditions []metav1.Condition `json:"conditions"`
		} `json:"spec"`
	}
	err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &read)
	return read.Spec.Conditions, err
}
