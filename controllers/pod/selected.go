package pod

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/controllers/kind"
	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/process/trigger"
	"github.com/weft-network/weft/pkg/unit"
)

// namespace returns the cached metadata of a namespace.
func (r *Reconciler) namespace(ctx context.Context, name string) (*metav1.PartialObjectMetadata, error) {
	namespace := kind.NewNamespace()
	return namespace, r.Client.Get(ctx, types.NamespacedName{Name: name}, namespace)
}

// selection is what selects a pod: its EgressIP, its routers, and the groups and sets of policies.
type selection struct {
	egressIP  string
	nextHops  []facts.NextHop
	selectors []unit.Key
}

// selectedBy finds the selection of a pod. It compares each EgressIP and ExternalRoute, because there are few. A pod may be cached
// before its namespace, whose creation enqueues the pod again.
func (r *Reconciler) selectedBy(ctx context.Context, pod *corev1.Pod) (by selection, err error) {
	var all networkv1alpha1.EgressIPList
	var routes networkv1alpha1.ExternalRouteList
	var services corev1.ServiceList
	if err := errors.Join(r.Client.List(ctx, &all),
		r.Client.List(ctx, &services, client.InNamespace(pod.Namespace), client.MatchingFields{kind.ServicesLeaving: "true"}),
		r.Client.List(ctx, &routes)); err != nil {
		return by, err
	}
	r.state.see(len(all.Items) > 0, len(routes.Items) > 0)
	namespace, err := r.namespace(ctx, pod.Namespace)
	if apierrors.IsNotFound(err) {
		r.state.miss(pod.Namespace)
		namespace, err = r.namespace(ctx, pod.Namespace) // it may have arrived meanwhile
	}
	if client.IgnoreNotFound(err) != nil {
		return by, err
	}
	if err == nil {
		by.egressIP = facts.SelectEgress(all.Items, services.Items, pod.Namespace, namespace.Labels, pod.Labels)
		by.nextHops = facts.NextHopsOf(routes.Items, namespace.Labels, pod.Labels)
	}
	by.selectors = r.Selectors.Of(selectedPod(pod, namespace))
	return by, nil
}

func selectedPod(pod *corev1.Pod, namespace *metav1.PartialObjectMetadata) facts.SelectedPod {
	return facts.SelectedPod{Namespace: pod.Namespace, Name: pod.Name, NamespaceLabels: namespace.Labels,
		Labels: pod.Labels, Ports: facts.NamedPorts(pod)}
}

// relabelled changes what selects the pods of a namespace whose labels have changed. It enqueues only pods that wait for an IPPool,
// which may select the namespace now, unless namespaceChanged enqueues all anyway.
func (r *Reconciler) relabelled(ctx context.Context, e event.UpdateEvent, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
	if !trigger.LabelsChanged(e.ObjectOld, e.ObjectNew) || r.namespaceChanged(e.ObjectOld, e.ObjectNew) {
		return
	}
	for _, pod := range r.state.waiters.ForPools(e.ObjectNew.GetName()) {
		q.Add(reconcile.Request{NamespacedName: pod})
	}
	// the cache returns no errors once it is in sync
	_ = r.Selectors.Relabel(ctx, e.ObjectOld.GetLabels(), e.ObjectNew.GetLabels(), func(ctx context.Context) ([]facts.SelectedPod, error) {
		return r.selectedIn(ctx, e.ObjectNew.GetName())
	})
}

// selectedIn lists the pods of a namespace that have a port or may get one, with what selectors read of them.
func (r *Reconciler) selectedIn(ctx context.Context, name string) (all []facts.SelectedPod, err error) {
	namespace, err := r.namespace(ctx, name)
	if client.IgnoreNotFound(err) != nil {
		return nil, err
	}
	var pods corev1.PodList
	if err := r.Client.List(ctx, &pods, client.InNamespace(name)); err != nil {
		return nil, err
	}
	for i := range pods.Items {
		if pod := &pods.Items[i]; facts.WantsPort(pod) {
			all = append(all, selectedPod(pod, namespace))
		}
	}
	return all, nil
}

// selectorsChanged reports whether the selectors have changed.
func selectorsChanged(before, after *networkv1alpha1.EgressIP) bool {
	return !equality.Semantic.DeepEqual(before.Spec.NamespaceSelector,
		after.Spec.NamespaceSelector) ||
		!equality.Semantic.DeepEqual(before.Spec.PodSelector, after.Spec.PodSelector)
}

// enqueueSelected enqueues the pods that EgressIPs select, or selected.
func (r *Reconciler) enqueueSelected(ctx context.Context, q workqueue.TypedRateLimitingInterface[reconcile.Request],
	objects ...client.Object) {
	for _, o := range objects {
		e, ok := o.(*networkv1alpha1.EgressIP)
		if !ok {
			continue
		}
		for _, request := range r.SelectedBy(ctx, e) {
			q.Add(request)
		}
	}
}

// SelectedBy returns a request for each pod that an EgressIP selects.
func (r *Reconciler) SelectedBy(ctx context.Context, e *networkv1alpha1.EgressIP) []reconcile.Request {
	return r.podsMatching(ctx, func(namespace, pod labels.Set) (bool, error) { return facts.Selects(e, namespace, pod) })
}

// podsMatching returns a request for each pod that an EgressIP or ExternalRoute selects, by its labels and its namespace's. If it selects
// none yet, the labels of a namespace may change that.
func (r *Reconciler) podsMatching(ctx context.Context, selects func(namespace, pod labels.Set) (bool, error)) []reconcile.Request {
	r.state.see(true, false)
	namespaces := map[string]*metav1.PartialObjectMetadata{}
	return kind.RequestsIf(ctx, r.Client, &corev1.PodList{}, func(pod *corev1.Pod) bool {
		namespace, known := namespaces[pod.Namespace]
		if !known {
			if found, err := r.namespace(ctx, pod.Namespace); err == nil {
				namespace = found
			}
			namespaces[pod.Namespace] = namespace
		}
		if namespace == nil {
			return false
		}
		selected, err := selects(namespace.Labels, pod.Labels)
		return err == nil && selected && facts.WantsPort(pod)
	})
}

// selectedByService returns a request for each pod that a Service selects, whose address may be the pods' source outside.
func (r *Reconciler) selectedByService(ctx context.Context, o client.Object) []reconcile.Request {
	service, ok := o.(*corev1.Service)
	if !ok || len(service.Spec.Selector) == 0 {
		return nil
	}
	return r.list(ctx, client.InNamespace(service.Namespace), client.MatchingLabels(service.Spec.Selector))
}
