package policy

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/controllers/kind"
	"github.com/weft-network/weft/pkg/process/trigger"
	"github.com/weft-network/weft/pkg/topology"
	"github.com/weft-network/weft/pkg/unit"
)

// reasonMulticastFloods is the reason of an event: a namespace requests what the ClusterNetwork does not offer.
const reasonMulticastFloods = "MulticastNotOnRequest"

// Multicast reconciles namespaces that request multicast. Their ACLs name the group and the sets of all their pods, which
// policies share.
type Multicast struct{ *Reconciler }

// Reconcile implements reconcile.Reconciler.
func (r *Multicast) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	if err := r.Selectors.Load(ctx); err != nil {
		return ctrl.Result{}, err
	}
	namespace := kind.NewNamespace()
	if err := r.Client.Get(ctx, req.NamespacedName, namespace); client.IgnoreNotFound(err) != nil {
		return ctrl.Result{}, err
	}
	offered, known, err := r.offered(ctx)
	if err != nil {
		return ctrl.Result{}, err
	}
	requested, invalid := networkv1alpha1.ParseMulticast(namespace.Annotations)
	switch {
	case requested && !known:
		return ctrl.Result{}, nil // without a ClusterNetwork it stays as it is, and the next ClusterNetwork enqueues it
	case invalid != nil:
		r.Events.Eventf(namespace, nil, corev1.EventTypeWarning, networkv1alpha1.ReasonInvalidAnnotation, "Multicast",
			"multicast is not requested: %v", invalid)
	case requested && !offered:
		r.Events.Eventf(namespace, nil, corev1.EventTypeWarning, reasonMulticastFloods, "Multicast",
			"annotation %s has no effect: ClusterNetwork %s has not spec.multicast %s", networkv1alpha1.MulticastAnnotation,
			networkv1alpha1.ClusterNetworkName, networkv1alpha1.MulticastOnRequest)
	}
	if !requested || !offered {
		return ctrl.Result{}, r.settle(ctx, unit.Unit{Key: topology.MulticastKey(req.Name)}, nil)
	}
	selectors := topology.MulticastSelectors(req.Name)
	if err := r.use(ctx, req.Name); err != nil {
		return ctrl.Result{}, err
	}
	if _, ready := r.Selectors.Unmade(selectors); !ready {
		return ctrl.Result{}, nil // the group and sets that wait for a pod enqueue this namespace when they are created
	}
	return ctrl.Result{}, r.settle(ctx, topology.MulticastUnit(req.Name), selectors)
}

func (r *Multicast) use(ctx context.Context, namespace string) error {
	return r.Selectors.Use(ctx, topology.MulticastKey(namespace), topology.MulticastSelectors(namespace), world{r.Client}.pods)
}

// offered reports whether namespaces can request multicast. known is false without a ClusterNetwork.
func (r *Multicast) offered(ctx context.Context) (offered, known bool, err error) {
	var cn networkv1alpha1.ClusterNetwork
	err = r.Client.Get(ctx, types.NamespacedName{Name: networkv1alpha1.ClusterNetworkName}, &cn)
	return cn.Spec.Multicast == networkv1alpha1.MulticastOnRequest, err == nil, client.IgnoreNotFound(err)
}

// annotated lists the namespaces with the annotation. It reads the cache of metadata.
func (r *Multicast) annotated(ctx context.Context) (found []metav1.PartialObjectMetadata, err error) {
	var all metav1.PartialObjectMetadataList
	all.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("NamespaceList"))
	if err := r.Client.List(ctx, &all); err != nil {
		return nil, err
	}
	for i := range all.Items {
		if _, ok := all.Items[i].Annotations[networkv1alpha1.MulticastAnnotation]; ok {
			found = append(found, all.Items[i])
		}
	}
	return found, nil
}

// load reads the namespaces that request multicast into the selectors.
func (r *Multicast) load(ctx context.Context) error {
	if offered, _, err := r.offered(ctx); err != nil || !offered {
		return err
	}
	namespaces, err := r.annotated(ctx)
	if err != nil {
		return err
	}
	for i := range namespaces {
		if requested, invalid := networkv1alpha1.ParseMulticast(namespaces[i].Annotations); invalid != nil || !requested {
			continue
		}
		if err := r.use(ctx, namespaces[i].Name); err != nil {
			return err
		}
	}
	return nil
}

func (r *Multicast) kind() *kind.Kind {
	return &kind.Kind{
		Name: topology.KindMulticast, Workers: workers, Reconciler: r, Object: "namespace",
		Owner: func() client.Object { return kind.NewNamespace() },
		Watches: []kind.Watch{
			kind.Of(&corev1.Namespace{}, multicastChanged()).MetadataOnly(),
			kind.Map(&networkv1alpha1.ClusterNetwork{}, r.all, trigger.Changed(offerChanged)),
		},
	}
}

// multicastChanged passes events of namespaces that change what they request.
func multicastChanged() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool { return requestOf(e.Object) != "" },
		UpdateFunc: func(e event.UpdateEvent) bool { return requestOf(e.ObjectOld) != requestOf(e.ObjectNew) },
		DeleteFunc: func(e event.DeleteEvent) bool { return requestOf(e.Object) != "" },
	}
}

func requestOf(namespace client.Object) string {
	return namespace.GetAnnotations()[networkv1alpha1.MulticastAnnotation]
}

// offerChanged passes updates that change whether namespaces can request multicast.
func offerChanged(before, after *networkv1alpha1.ClusterNetwork) bool {
	return before.Spec.Multicast != after.Spec.Multicast
}

// all returns a request for each namespace with the annotation.
func (r *Multicast) all(ctx context.Context, _ client.Object) (all []reconcile.Request) {
	namespaces, err := r.annotated(ctx)
	if err != nil {
		return nil // the cache returns no errors once it is in sync
	}
	for i := range namespaces {
		all = append(all, reconcile.Request{NamespacedName: types.NamespacedName{Name: namespaces[i].Name}})
	}
	return all
}
