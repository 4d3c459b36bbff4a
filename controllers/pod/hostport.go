package pod

import (
	"context"
	"errors"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/controllers/kind"
	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/health"
)

// anyPort is the value of kind.PodsByHostPort of all Pods with host ports.
const anyPort = "any"

// IndexByHostPort is the function of the index kind.PodsByHostPort.
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

// IndexByNodePort is the function of the index kind.ServicesByNodePort.
func IndexByNodePort(o client.Object) []string {
	if service, ok := o.(*corev1.Service); ok {
		return facts.NodePorts(service)
	}
	return nil
}

// refusedPorts has a sentence for each host port that a pod does not get.
type refusedPorts struct {
	invalid  []string // cannot be read
	reserved []string // or belongs to a service or to another pod
}

// hostPorts returns the host ports that a pod gets, and why it does not get the others.
func (r *Reconciler) hostPorts(ctx context.Context, p *request) (kept []facts.HostPort, refused refusedPorts, err error) {
	refused.invalid = p.hostPortProblems
	if len(refused.invalid) > 0 {
		r.Events.Eventf(p.pod, nil, corev1.EventTypeWarning, "InvalidHostPort", "MapHostPort", "%s",
			health.Cut(strings.Join(refused.invalid, "; ")))
	}
	if len(p.hostPorts) == 0 {
		return nil, refused, nil
	}
	table, err := r.Reserved.ForNode(ctx, p.node)
	if err != nil {
		return nil, refused, err
	}
	kept, refused.reserved = facts.RefuseHostPorts(p.node, p.hostPorts, table, func(port facts.HostPort) string {
		holder, failure := r.holder(ctx, p.pod, port)
		err = errors.Join(err, failure)
		return holder
	})
	return kept, refused, err
}

// holder returns the service or the other pod that has a host port, in words; empty if none has.
func (r *Reconciler) holder(ctx context.Context, pod *corev1.Pod, port facts.HostPort) (string, error) {
	text := facts.NodePort(port.Protocol, port.Port)
	var services corev1.ServiceList
	err := r.Client.List(ctx, &services, client.MatchingFields{kind.ServicesByNodePort: text}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return "", err
	}
	found := map[string]string{}
	for i := range services.Items { // the API server allocates a node port once; otherwise a restart must not choose another service
		if name := client.ObjectKeyFromObject(&services.Items[i]).String(); found[text] == "" || name < found[text] {
			found[text] = name
		}
	}
	if holder := facts.NodePortHolder(port, found); holder != "" {
		return holder, nil
	}
	var pods corev1.PodList
	if err := r.Client.List(ctx, &pods, client.MatchingFields{kind.PodsByHostPort: text}, client.UnsafeDisableDeepCopy); err != nil {
		return "", err
	}
	for i := range pods.Items {
		other := &pods.Items[i]
		if other.UID != pod.UID && other.Spec.NodeName == pod.Spec.NodeName && facts.WantsPort(other) &&
			facts.YieldsHostPort(pod, other, port) {
			return "the random host port of pod " + client.ObjectKeyFromObject(other).String(), nil
		}
	}
	return "", nil
}

// WithHostPorts returns a request for each pod that has a host port, because the reservations have changed.
func (r *Reconciler) WithHostPorts(ctx context.Context, _ client.Object) []reconcile.Request {
	return r.list(ctx, client.MatchingFields{kind.PodsByHostPort: anyPort})
}

// Contesting returns a request for each pod with a host port that is a service's node port.
func (r *Reconciler) Contesting(ctx context.Context, service client.Object) (requests []reconcile.Request) {
	for _, port := range IndexByNodePort(service) {
		requests = append(requests, r.list(ctx, client.MatchingFields{kind.PodsByHostPort: port})...)
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

// yielding enqueues the other pods of a node that name or have a host port that a pod no longer has, or has now.
func (r *Reconciler) yielding() handler.Funcs {
	type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
	enqueue := func(ctx context.Context, q queue, o client.Object, texts []string) {
		pod, ok := o.(*corev1.Pod)
		if !ok {
			return
		}
		for _, text := range texts {
			for _, request := range r.withHostPort(ctx, text, pod.Spec.NodeName) {
				q.Add(request)
			}
		}
	}
	return handler.Funcs{
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q queue) {
			enqueue(ctx, q, e.Object, randomPorts(e.Object))
		},
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q queue) {
			if was, is := randomPorts(e.ObjectOld), randomPorts(e.ObjectNew); !slices.Equal(was, is) {
				enqueue(ctx, q, e.ObjectNew, append(was, is...))
			}
		},
	}
}

// randomPorts returns the random host ports of a pod, as facts.NodePort writes them, while the pod has a port.
func randomPorts(o client.Object) (found []string) {
	pod, ok := o.(*corev1.Pod)
	if !ok || !facts.WantsRandomHostPorts(pod) || !facts.WantsPort(pod) {
		return nil
	}
	ports, _ := facts.HostPorts(pod)
	for _, port := range ports {
		if port.Random {
			found = append(found, facts.NodePort(port.Protocol, port.Port))
		}
	}
	return found
}

// reservedChanged passes updates of the ClusterNetwork that change its reserved ports.
func reservedChanged(before, after *networkv1alpha1.ClusterNetwork) bool {
	return !equality.Semantic.DeepEqual(before.Spec.ReservedPorts, after.Spec.ReservedPorts)
}

// addressesChanged passes updates of a Node or NodeNetwork that change the node's addresses.
func addressesChanged(before, after client.Object) bool {
	return !slices.Equal(facts.NodeAddresses(before), facts.NodeAddresses(after))
}

// onNodeWithHostPorts returns a request for each pod of a node that has a host port.
func (r *Reconciler) onNodeWithHostPorts(ctx context.Context, node client.Object) []reconcile.Request {
	return r.withHostPort(ctx, anyPort, node.GetName())
}

// withHostPort returns a request for each pod of a node with this value in the index kind.PodsByHostPort.
func (r *Reconciler) withHostPort(ctx context.Context, value, node string) (requests []reconcile.Request) {
	var pods corev1.PodList
	if err := r.Client.List(ctx, &pods, client.MatchingFields{kind.PodsByHostPort: value}, client.UnsafeDisableDeepCopy); err != nil {
		return nil // the cache returns no errors once it is in sync
	}
	for i := range pods.Items {
		if pods.Items[i].Spec.NodeName == node {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&pods.Items[i])})
		}
	}
	return requests
}
