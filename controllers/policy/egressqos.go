package policy

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/controllers/kind"
	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/ovndb"
	"github.com/weft-network/weft/pkg/process/trigger"
	"github.com/weft-network/weft/pkg/topology"
	"github.com/weft-network/weft/pkg/unit"
)

// QoS reconciles EgressQoSes. Their rules name the sets of the selected pods' addresses, which policies share.
type QoS struct {
	*Reconciler
	// CountDelay is how long the status may not say yet that a rule has lost its last pod.
	CountDelay time.Duration
}

// Reconcile implements reconcile.Reconciler.
func (r *QoS) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	if req.Name != networkv1alpha1.EgressQoSName {
		return ctrl.Result{}, nil // the API server refuses other names
	}
	if err := r.Selectors.Load(ctx); err != nil {
		return ctrl.Result{}, err
	}
	var qos networkv1alpha1.EgressQoS
	if err := r.Client.Get(ctx, req.NamespacedName, &qos); apierrors.IsNotFound(err) {
		return ctrl.Result{}, r.settle(ctx, unit.Unit{Key: topology.EgressQoSKey(req.Namespace)}, nil)
	} else if err != nil {
		return ctrl.Result{}, err
	}
	read, invalid, err := r.use(ctx, &qos)
	if err != nil {
		return ctrl.Result{}, err
	}
	selectors := topology.EgressQoSSelectors(read)
	if _, ready := r.Selectors.Unmade(selectors); !ready {
		return ctrl.Result{}, nil // the sets that wait for a pod enqueue this object when they are created
	}
	applied := r.settle(ctx, topology.EgressQoSUnit(read), selectors)
	idle, err := r.idle(ctx, &qos)
	if err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{}, errors.Join(applied, r.report(ctx, &qos, invalid, applied, idle))
}

// selectsOf returns the selection of pods by a rule. ok is false for a rule of all pods of the namespace.
func selectsOf(rule *networkv1alpha1.EgressQoSRule) (selects kind.Selects, ok bool) {
	selector, err := metav1.LabelSelectorAsSelector(rule.PodSelector)
	return func(_, pod labels.Set) (bool, error) { return selector.Matches(pod), nil }, rule.PodSelector != nil && err == nil
}

// idle describes the rules whose podSelector selects no pod.
func (r *QoS) idle(ctx context.Context, qos *networkv1alpha1.EgressQoS) (idle []string, err error) {
	for i := range qos.Spec.Egress {
		selects, ok := selectsOf(&qos.Spec.Egress[i])
		if !ok {
			continue
		}
		selected, err := kind.SelectsAny(ctx, r.Client, selects, client.InNamespace(qos.Namespace))
		if err != nil {
			return nil, err
		}
		if !selected {
			idle = append(idle, ruleSelectsNone(i))
		}
	}
	return idle, nil
}

// ruleSelectsNone is a part of the condition's message.
func ruleSelectsNone(rule int) string {
	return fmt.Sprintf("spec.egress[%d].podSelector selects no pod", rule)
}

// selectors lists the selectors of the EgressQoS of an object's namespace.
func (r *QoS) selectors(ctx context.Context, o client.Object) (all []kind.Selector) {
	name := types.NamespacedName{Namespace: o.GetNamespace(), Name: networkv1alpha1.EgressQoSName}
	var qos networkv1alpha1.EgressQoS
	if name.Namespace == "" || r.Client.Get(ctx, name, &qos) != nil {
		return nil
	}
	message := ""
	if ready := meta.FindStatusCondition(qos.Status.Conditions, networkv1alpha1.ConditionReady); ready != nil {
		message = ready.Message
	}
	for i := range qos.Spec.Egress {
		if selects, ok := selectsOf(&qos.Spec.Egress[i]); ok {
			all = append(all, kind.Selector{Request: reconcile.Request{NamespacedName: name}, Selects: selects,
				None: strings.Contains(message, ruleSelectsNone(i))})
		}
	}
	return all
}

func (r *QoS) use(ctx context.Context, qos *networkv1alpha1.EgressQoS) (read facts.EgressQoS, invalid, err error) {
	var nodes networkv1alpha1.NodeNetworkList
	if err := r.Client.List(ctx, &nodes); err != nil {
		return read, nil, err
	}
	read, invalid = facts.ParseEgressQoS(qos, facts.LocalNodes(r.Zone.Own(nodes.Items)))
	return read, invalid, r.Selectors.Use(ctx, topology.EgressQoSKey(qos.Namespace), topology.EgressQoSSelectors(read),
		world{r.Client}.pods)
}

// load reads all EgressQoSes into the selectors.
func (r *QoS) load(ctx context.Context) error {
	var all networkv1alpha1.EgressQoSList
	if err := r.Client.List(ctx, &all); err != nil {
		return err
	}
	for i := range all.Items {
		if _, _, err := r.use(ctx, &all.Items[i]); err != nil {
			return err
		}
	}
	return nil
}

// report writes in the status whether the rules are in force, and records an event if they are not.
func (r *QoS) report(ctx context.Context, qos *networkv1alpha1.EgressQoS, invalid, applied error, idle []string) error {
	condition := metav1.Condition{Type: networkv1alpha1.ConditionReady, Status: metav1.ConditionTrue,
		Reason: networkv1alpha1.ReasonAsExpected, ObservedGeneration: qos.Generation,
		Message: strings.Join(append([]string{fmt.Sprintf("rules in force: %d", len(qos.Spec.Egress))}, idle...), "; ")}
	updated := qos.DeepCopy()
	if invalid == nil && applied == nil {
		updated.Status.Egress = updated.Spec.Egress
	}
	var refused *ovndb.RejectedError
	switch {
	case errors.As(applied, &refused):
		condition.Status, condition.Reason, condition.Message = metav1.ConditionFalse,
			networkv1alpha1.ReasonDatabaseRefused, refused.Err.Error()
	case applied != nil: // the process or the connection ends; its successor writes the condition
		return nil
	case invalid != nil:
		condition.Status, condition.Reason = metav1.ConditionFalse, networkv1alpha1.ReasonInvalidSpec
		condition.Message = fmt.Sprintf("no rule is in force: %v", invalid)
		if former := len(qos.Status.Egress); former > 0 {
			condition.Message = fmt.Sprintf("the former rules stay in force: %d: %v", former, invalid)
		}
	}
	meta.SetStatusCondition(&updated.Status.Conditions, condition)
	if equality.Semantic.DeepEqual(updated.Status, qos.Status) {
		return nil
	}
	if condition.Status == metav1.ConditionFalse {
		r.Events.Eventf(qos, nil, corev1.EventTypeWarning, condition.Reason, "Mark", "%s", condition.Message)
	}
	return client.IgnoreNotFound(kind.WriteStatus(ctx, r.Client, qos, updated))
}

func (r *QoS) kind() *kind.Kind {
	return &kind.Kind{
		Name: topology.KindEgressQoS, Workers: workers, Reconciler: r,
		Owner: func() client.Object { return &networkv1alpha1.EgressQoS{} },
		Watches: append([]kind.Watch{
			kind.Of(&networkv1alpha1.EgressQoS{}, trigger.Changed(qosChanged)),
			kind.Map(&networkv1alpha1.NodeNetwork{}, r.all, predicate.Funcs{
				CreateFunc: func(e event.CreateEvent) bool { return r.isLocal(e.Object) },
				DeleteFunc: func(e event.DeleteEvent) bool { return r.isLocal(e.Object) },
				UpdateFunc: func(e event.UpdateEvent) bool { return r.isLocal(e.ObjectOld) != r.isLocal(e.ObjectNew) },
			}),
		}, kind.SelectionWatches(r.Client, r.selectors, r.lost)...),
	}
}

// lost enqueues an EgressQoS that may have lost the last pod of a rule, once for the pods of a while.
func (r *QoS) lost(request reconcile.Request) {
	r.Triggers.EnqueueAfter(topology.KindEgressQoS, request.NamespacedName, r.CountDelay)
}

// isLocal reports whether a node of the zone is in Local mode.
func (r *QoS) isLocal(o client.Object) bool {
	nn, ok := o.(*networkv1alpha1.NodeNetwork)
	return ok && facts.InLocalMode(nn) && !r.Zone.Elsewhere(nn)
}

// qosChanged passes changes of the spec and the status, including our own writes. Conditions that equal an outdated
// status are not written, so they are compared again when our last write arrives.
func qosChanged(before, after *networkv1alpha1.EgressQoS) bool {
	return before.Generation != after.Generation || !equality.Semantic.DeepEqual(before.Status, after.Status)
}

// all returns a request for each EgressQoS.
func (r *QoS) all(ctx context.Context, _ client.Object) []reconcile.Request {
	return kind.Requests(ctx, r.Client, &networkv1alpha1.EgressQoSList{})
}
