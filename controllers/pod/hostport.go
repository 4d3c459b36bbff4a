package pod

import (
	"context"
	"slices"
	"strings"

	"github.com/weft-network/weft/pkg/facts"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/health"
)

const (
	// ByHostPort indexes Pods by their host ports, as facts.NodePort writes them, and by anyPort if they have one.
	ByHostPort = "spec.hostPorts"
	// ByNodePort indexes Services by their node ports, as facts.NodePort writes them.
	ByNodePort = "spec.nodePorts"
	// anyPort is the index's value of all Pods with host ports.
	anyPort = "any"
)

// IndexByHostPort is the function of the index ByHostPort.
func IndexByHostPort(o client.Object) (found []string) {
	pod, ok := o.(*corev1.Pod)
	if !ok {
		return nil
	}
	ports, _ := facts.HostPorts(pod)
	for _, port := range ports {
		found = append(found, facts.NodePort(port.Protocol, port.Port))
	}
	if len(found) > 0 {
		found = append(found, anyPort)
	}
	return found
}

// IndexByNodePort is the function of the index ByNodePort.
func IndexByNodePort(o client.Object) []string {
	if service, ok := o.(*corev1.Service); ok {
		return facts.NodePorts(service)
	}
	return nil
}

// hostPorts returns the host ports that a pod gets, and a sentence for each that is reserved or belongs to a service.
func (r *Reconciler) hostPorts(ctx context.Context, pod *corev1.Pod) (kept []facts.HostPort, refused []string, err error) {
	ports, problems := facts.HostPorts(pod)
	if len(problems) > 0 {
		r.Events.Eventf(pod, nil, corev1.EventTypeWarning, "InvalidHostPort", "MapHostPort", "%s",
			health.Cut(strings.Join(problems, "; ")))
	}
	if len(ports) == 0 {
		return nil, nil, nil
	}
	table, err := r.Reserved.ForNode(ctx, pod.Spec.NodeName)
	if err != nil {
		return nil, nil, err
	}
	services := map[string]string{}
	for _, port := range ports {
		text := facts.NodePort(port.Protocol, port.Port)
		var list corev1.ServiceList
		if err := r.Client.List(ctx, &list, client.MatchingFields{ByNodePort: text}, client.UnsafeDisableDeepCopy); err != nil {
			return nil, nil, err
		}
		if len(list.Items) > 0 { // the API server allocates a node port only once
			services[text] = client.ObjectKeyFromObject(&list.Items[0]).String()
		}
	}
	kept, refused = facts.RefuseHostPorts(ports, table, services)
	return kept, refused, nil
}

// WithHostPorts returns a request for each pod that has a host port, because the reservations have changed.
func (r *Reconciler) WithHostPorts(ctx context.Context, _ client.Object) []reconcile.Request {
	return r.list(ctx, client.MatchingFields{ByHostPort: anyPort})
}

// Contesting returns a request for each pod with a host port that is a service's node port.
func (r *Reconciler) Contesting(ctx context.Context, service client.Object) (requests []reconcile.Request) {
	for _, port := range IndexByNodePort(service) {
		requests = append(requests, r.list(ctx, client.MatchingFields{ByHostPort: port})...)
	}
	return requests
}

// contesting enqueues these pods for events of services.
func (r *Reconciler) contesting() handler.Funcs {
	type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
	enqueue := func(ctx context.Context, q queue, services ...client.Object) {
		for _, service := range services {
			for _, request := range r.Contesting(ctx, service) {
				q.Add(request)
			}
		}
	}
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q queue) {
			if !e.IsInInitialList { // the pods themselves are enqueued anyway
				enqueue(ctx, q, e.Object)
			}
		},
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q queue) { enqueue(ctx, q, e.Object) },
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q queue) {
			if !slices.Equal(IndexByNodePort(e.ObjectOld), IndexByNodePort(e.ObjectNew)) {
				enqueue(ctx, q, e.ObjectOld, e.ObjectNew)
			}
		},
	}
}

// reservedChanged passes updates of the ClusterNetwork that change its reserved ports.
func reservedChanged(e event.UpdateEvent) bool {
	before, ok := e.ObjectOld.(*networkv1alpha1.ClusterNetwork)
	after, ok2 := e.ObjectNew.(*networkv1alpha1.ClusterNetwork)
	return !ok || !ok2 || !equality.Semantic.DeepEqual(before.Spec.ReservedPorts, after.Spec.ReservedPorts)
}

// addressesChanged passes updates of a NodeNetwork that change the node's addresses.
func addressesChanged(e event.UpdateEvent) bool {
	before, ok := e.ObjectOld.(*networkv1alpha1.NodeNetwork)
	after, ok2 := e.ObjectNew.(*networkv1alpha1.NodeNetwork)
	return !ok || !ok2 || !slices.Equal(facts.GatewayAddresses(before), facts.GatewayAddresses(after))
}

// onNodeWithHostPorts returns a request for each pod of a node that has a host port.
func (r *Reconciler) onNodeWithHostPorts(ctx context.Context, node client.Object) (requests []reconcile.Request) {
	var pods corev1.PodList
	if err := r.Client.List(ctx, &pods, client.MatchingFields{ByHostPort: anyPort}, client.UnsafeDisableDeepCopy); err != nil {
		return nil // the cache returns no errors once it is in sync
	}
	for i := range pods.Items {
		if pods.Items[i].Spec.NodeName == node.GetName() {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&pods.Items[i])})
		}
	}
	return requests
}
