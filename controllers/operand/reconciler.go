package operand

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/install/member"
	"github.com/weft-network/weft/pkg/install/render"
	"github.com/weft-network/weft/pkg/install/rollout"
	"github.com/weft-network/weft/pkg/process/trigger"
)

// fieldOwner is the owner of applied fields.
const fieldOwner = client.FieldOwner("weft-operands")

// Reconciler applies the operands while there is a ClusterNetwork. Without a ClusterNetwork it changes nothing.
type Reconciler struct {
	Client client.Client
	Live   client.Reader
	Events events.EventRecorder
	Facts  render.Facts
	Now    func() time.Time
	// Patience is how long a replaced operand may take to work.
	Patience time.Duration
	// SendOrder delivers an order to a member, like member.Send.
	SendOrder func(ctx context.Context, address string, id member.Identity, order member.Order) (member.State, error)

	// latest identifies the ClusterNetwork after the last write of keep, which has one worker, at that time.
	latest struct {
		uid     types.UID
		version string
		at      time.Time
	}
}

func (r *Reconciler) setup(mgr ctrl.Manager) error {
	one := handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: networkv1alpha1.ClusterNetworkName}}}
	})
	return ctrl.NewControllerManagedBy(mgr).Named("operand").
		For(&networkv1alpha1.ClusterNetwork{}, builder.WithPredicates(predicate.Or(trigger.SpecChanged(), reportChanged()))).
		Watches(&corev1.Node{}, one, builder.WithPredicates(placed())).
		Watches(&corev1.Secret{}, one).Watches(&corev1.ConfigMap{}, one).
		Watches(&appsv1.StatefulSet{}, one, builder.WithPredicates(changed())).
		Watches(&appsv1.DaemonSet{}, one, builder.WithPredicates(changed())).
		Watches(&appsv1.Deployment{}, one, builder.WithPredicates(changed())).
		Watches(&corev1.Pod{}, one, builder.WithPredicates(podChanged())).
		Watches(&networkv1alpha1.NodeNetwork{}, one, builder.WithPredicates(predicate.Or(answered(), relayUsers(), zoneUsers()))).
		Complete(trigger.QuietConflicts(r))
}

// reportChanged passes changes of the versions that permit a removal, of the confirmation or cancellation of a
// removal, and of the rollout's status. It includes our own writes: a write whose reply was lost arrives as an event,
// and repeats comparisons with the outdated status.
func reportChanged() predicate.Predicate {
	return trigger.Changed(func(before, now *networkv1alpha1.ClusterNetwork) bool {
		const accepted, confirmed = networkv1alpha1.AcceptDifferenceAnnotation, networkv1alpha1.ConfirmRemovalAnnotation
		return !equality.Semantic.DeepEqual(before.Status.Rollout, now.Status.Rollout) ||
			before.Annotations[accepted] != now.Annotations[accepted] ||
			before.Annotations[confirmed] != now.Annotations[confirmed] || !slices.Equal(before.Finalizers, now.Finalizers)
	})
}

// placed passes changes of nodes that the place of the databases depends on.
func placed() predicate.Predicate {
	return trigger.Changed(func(before, now *corev1.Node) bool {
		return !reflect.DeepEqual(before.Status.Addresses, now.Status.Addresses) || !reflect.DeepEqual(before.Labels, now.Labels) ||
			before.Spec.Unschedulable != now.Spec.Unschedulable || before.DeletionTimestamp.IsZero() != now.DeletionTimestamp.IsZero() ||
			rollout.Lost(before) != rollout.Lost(now)
	})
}

// changed passes changes of workloads that their own controllers did not make. Of the status, which the controllers
// write, it passes that of the removal's workload, and which template was seen.
func changed() predicate.Predicate {
	removal := predicate.NewPredicateFuncs(func(o client.Object) bool { return o.GetName() == render.Uninstall })
	seen := trigger.Changed(func(before, now client.Object) bool { return rollout.Seen(before) != rollout.Seen(now) })
	return predicate.Or(removal, seen, trigger.SpecChanged(), predicate.AnnotationChangedPredicate{}, predicate.LabelChangedPredicate{})
}

// Reconcile implements reconcile.Reconciler.
func (r *Reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	cn := &networkv1alpha1.ClusterNetwork{}
	if err := r.Client.Get(ctx, request.NamespacedName, cn); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if !cn.DeletionTimestamp.IsZero() {
		return r.remove(ctx, cn)
	}
	if r.isBehind(cn) { // it would write again what it wrote already
		return reconcile.Result{RequeueAfter: trigger.FirstRetry}, nil
	}
	defer func() { r.latest.uid, r.latest.version, r.latest.at = cn.UID, cn.ResourceVersion, time.Now() }()
	return r.keep(ctx, cn)
}

// maxBehind is how long a cache may lack a write of this process. After etcd was restored from a backup, it lacks the write for ever.
const maxBehind = 10 * time.Second

// isBehind reports whether the cache does not have this process's last write to a ClusterNetwork yet.
func (r *Reconciler) isBehind(cached *networkv1alpha1.ClusterNetwork) bool {
	if cached.UID != r.latest.uid || time.Since(r.latest.at) > maxBehind {
		return false
	}
	order, err := resourceversion.CompareResourceVersion(cached.ResourceVersion, r.latest.version)
	return err == nil && order < 0
}

// keep applies the operands.
func (r *Reconciler) keep(ctx context.Context, cn *networkv1alpha1.ClusterNetwork) (reconcile.Result, error) {
	if external, err := r.external(ctx, cn); external || err != nil {
		return reconcile.Result{}, err
	}
	zones, err := r.zoneFacts(ctx, cn)
	if err != nil {
		return reconcile.Result{}, err
	}
	place, ok, err := r.place(ctx, cn, zones)
	if !ok || err != nil {
		return reconcile.Result{}, err
	}
	if place, err = r.zones(ctx, cn, zones, place); err != nil {
		return reconcile.Result{}, err
	}
	if place, err = r.relays(ctx, cn, place); err != nil {
		return reconcile.Result{}, err
	}
	if cn.DeletionTimestamp.IsZero() { // the API server accepts no finalizer later
		if err := r.finalize(ctx, cn, true); err != nil {
			return reconcile.Result{}, err
		}
	}
	if done, err := r.gone(ctx, []string{render.Uninstall}); err != nil || !done { // left from a cancelled removal
		return reconcile.Result{}, err
	}
	next, err := r.keys(ctx, cn, place)
	if err != nil {
		return reconcile.Result{}, err
	}
	facts := r.Facts
	facts.Place, facts.Encrypted = place, cn.Spec.Encapsulation.Encryption == networkv1alpha1.EncryptionIPsec
	facts.Components = cn.Spec.Components
	if !facts.Encrypted {
		if err := r.deleteIfThere(ctx, &appsv1.DaemonSet{ObjectMeta: r.meta(render.IKE)}); err != nil {
			return reconcile.Result{}, err
		}
	}
	again, err := r.rollOut(ctx, cn, facts)
	if !again.IsZero() && again.Before(next) {
		next = again
	}
	soon, failed := r.membersOfAll(ctx, cn, place)
	if err = errors.Join(err, failed); soon > 0 {
		next = r.Now().Add(soon)
	}
	return reconcile.Result{RequeueAfter: max(next.Sub(r.Now()), time.Second)}, err
}

// external reports whether an administrator runs the databases. A second pair of databases would take the network
// over from the first. Where Weft runs them already, the ConfigMap changes nothing.
func (r *Reconciler) external(ctx context.Context, cn *networkv1alpha1.ClusterNetwork) (bool, error) {
	if err := r.Client.Get(ctx, r.own(externalDatabases), &corev1.ConfigMap{}); err != nil {
		return false, client.IgnoreNotFound(err)
	}
	text, err := "so that no operand is applied; delete it to run them here", r.Client.Get(ctx, r.own(render.Central), &appsv1.StatefulSet{})
	if err == nil {
		text = "which has no effect, because StatefulSet " + render.Central + " runs them here; remove the network first to move them"
	}
	r.Events.Eventf(regarding(cn), nil, corev1.EventTypeWarning, "ExternalDatabases", "Apply",
		"ConfigMap %s/%s says that OVN's databases run elsewhere, %s", r.Facts.Namespace, externalDatabases, text)
	return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
}

// place chooses the nodes of the databases of the default zone. ok is false if no node is suitable.
func (r *Reconciler) place(ctx context.Context, cn *networkv1alpha1.ClusterNetwork, zones render.ZoneFacts) (place render.Place, ok bool,
	err error) {
	central := &appsv1.StatefulSet{}
	if err := r.Client.Get(ctx, r.own(render.Central), central); client.IgnoreNotFound(err) != nil {
		return place, false, err
	}
	before := beforeOf(central)
	place = render.PlaceOutside(zones, before, max(1, int(cn.Spec.Databases.Members)))
	if len(place.Members) == 0 && len(zones.Before) > 0 && len(zones.Nodes) > 0 {
		r.Events.Eventf(regarding(cn), nil, corev1.EventTypeWarning, "NoNodeForDatabases", "Apply",
			"every node has a zone's databases, so that none can have those of the default zone; add a node")
	}
	r.recordMoved(cn, "", before.Nodes, zones.Nodes, place)
	return place, len(place.Members) > 0, nil
}

// beforeOf returns where databases are, by the annotations of their StatefulSet.
func beforeOf(central *appsv1.StatefulSet) (before render.Before) {
	if nodes := central.Annotations[render.AnnotationNode]; nodes != "" {
		before.Nodes = strings.Split(nodes, ",")
	}
	before.Clustered = central.Annotations[render.AnnotationClusters] != ""
	return before
}

// recordMoved records an event for members whose node is gone. of names the zone, like " of zone east".
func (r *Reconciler) recordMoved(cn *networkv1alpha1.ClusterNetwork, of string, before []string, nodes []corev1.Node, place render.Place) {
	now := place.Nodes()
	for _, node := range before {
		there := slices.ContainsFunc(nodes, func(n corev1.Node) bool { return n.Name == node && n.DeletionTimestamp == nil })
		switch {
		case slices.Contains(now, node) || len(now) == 0 || there && len(now) < len(before):
		case place.Clustered():
			r.Events.Eventf(cn, nil, corev1.EventTypeWarning, "MemberReplaced", "Apply",
				"node %s is gone: the members of OVN's databases%s are on %s", node, of, strings.Join(now, ", "))
		default:
			r.Events.Eventf(cn, nil, corev1.EventTypeWarning, "DatabasesMoved", "Apply",
				"node %s is gone: OVN's databases%s are recreated on node %s", node, of, now[0])
		}
	}
}

// keys writes the Secrets that differ, and returns when the first of them must be replaced.
func (r *Reconciler) keys(ctx context.Context, cn *networkv1alpha1.ClusterNetwork, place render.Place) (next time.Time, err error) {
	// a Secret that the cache lacks must not be created again
	for _, reader := range []client.Reader{r.Client, r.Live} {
		var changes []render.Change
		before, err := r.secrets(ctx, reader)
		if err != nil {
			return next, err
		}
		if changes, next, err = render.Keys(r.Facts.Namespace, before, place, r.Now()); err != nil || len(changes) == 0 {
			return next, err
		}
		if reader == r.Live {
			err = r.writeSecrets(ctx, cn, before, changes)
		}
		if err != nil {
			return next, err
		}
	}
	return next, nil
}

func (r *Reconciler) secrets(ctx context.Context, reader client.Reader) (map[string]*corev1.Secret, error) {
	found := map[string]*corev1.Secret{}
	for _, name := range render.SecretNames() {
		s := &corev1.Secret{}
		err := reader.Get(ctx, r.own(name), s)
		if err == nil {
			found[name] = s
		} else if !apierrors.IsNotFound(err) {
			return nil, err
		}
	}
	return found, nil
}

func (r *Reconciler) writeSecrets(ctx context.Context, cn *networkv1alpha1.ClusterNetwork,
	before map[string]*corev1.Secret, changes []render.Change) error {
	for _, c := range changes {
		var err error
		if before[c.Secret.Name] == nil {
			err = r.Client.Create(ctx, c.Secret.DeepCopy(), fieldOwner) // must not overwrite an existing Secret
		} else {
			err = r.apply(ctx, c.Secret)
		}
		if err != nil {
			return fmt.Errorf("secret %s: %w", c.Secret.Name, err)
		}
		r.Events.Eventf(cn, nil, corev1.EventTypeNormal, "KeysWritten", "Apply", "Secret %s: %s", c.Secret.Name, c.Why)
	}
	return nil
}

// workload applies a workload that differs.
func (r *Reconciler) workload(ctx context.Context, cn *networkv1alpha1.ClusterNetwork, want render.Workload) error {
	kind := want.GetObjectKind().GroupVersionKind().Kind
	have, err := r.have(ctx, want)
	if err != nil {
		return err
	}
	if differs, err := render.Differs(want, have); err != nil || !differs {
		return err
	}
	if err := r.apply(ctx, want); err != nil {
		return fmt.Errorf("%s %s: %w", kind, want.GetName(), err)
	}
	r.Events.Eventf(cn, nil, corev1.EventTypeNormal, "OperandApplied", "Apply", "%s %s", kind, want.GetName())
	return nil
}

// apply takes ownership of an object's fields, whoever owned them.
func (r *Reconciler) apply(ctx context.Context, object runtime.Object) error {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return err
	}
	u := &unstructured.Unstructured{Object: fields}
	unstructured.RemoveNestedField(u.Object, "status")
	unstructured.RemoveNestedField(u.Object, "metadata", "creationTimestamp")
	unstructured.RemoveNestedField(u.Object, "spec", "template", "metadata", "creationTimestamp")
	return r.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(u), fieldOwner, client.ForceOwnership)
}

func (r *Reconciler) own(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: r.Facts.Namespace, Name: name}
}
