package pod

import (
	"context"
	"errors"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/client"
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
	for _, port := range facts.PortsOfNode(pod) {
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
	err := r.Client.List(ctx, &services, client.MatchingFields{kind.ServicesByNodePort: text})
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
	if err := r.Client.List(ctx, &pods, client.MatchingFields{kind.PodsByHostPort: text}); err != nil {
		return "", err
	}
	for i := range pods.Items {
		if holder := facts.HostPortHolder(pod, &pods.Items[i], port); holder != "" {
			return holder, nil
		}
	}
	return "", nil
}

// WithHostPorts returns a request for each pod that has a host port, because the reservations have changed.
func (r *Reconciler) WithHostPorts(ctx context.Context, _ client.Object) []reconcile.Request {
	return r.list(ctx, client.MatchingFields{kind.PodsByHostPort: anyPort})
}

// contesting enqueues the pods with a host port that a service has, had or got as node port.
func (r *Reconciler) contesting() handler.Funcs {
	return kind.Changes(IndexByNodePort, func(ctx context.Context, ports []string) (requests []reconcile.Request) {
		for _, port := range ports {
			requests = append(requests, r.list(ctx, client.MatchingFields{kind.PodsByHostPort: port})...)
		}
		return requests
	})
}

// portOfNode is a port of a node while a pod has or names it. started is the second in which kubelet started the pod; 0: not yet.
type portOfNode struct {
	port, node string
	random     bool
	started    int64
}

// yielding enqueues the pods of a node with a port that a pod has or names now, or no longer, or in another order.
func (r *Reconciler) yielding() handler.Funcs {
	return kind.Changes(portsOfNode, func(ctx context.Context, ports []portOfNode) (requests []reconcile.Request) {
		for _, p := range ports {
			requests = append(requests, r.withHostPort(ctx, p.port, p.node)...)
		}
		return requests
	})
}

func portsOfNode(o client.Object) (found []portOfNode) {
	pod, ok := o.(*corev1.Pod)
	if !ok {
		return nil
	}
	var started int64
	if t := pod.Status.StartTime; !t.IsZero() {
		started = t.Unix()
	}
	for _, port := range facts.PortsOfNode(pod) {
		found = append(found, portOfNode{facts.NodePort(port.Protocol, port.Port), pod.Spec.NodeName, port.Random, started})
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
func (r *Reconciler) withHostPort(ctx context.Context, value, node string) []reconcile.Request {
	return kind.RequestsIf(ctx, r.Client, &corev1.PodList{}, func(pod *corev1.Pod) bool { return pod.Spec.NodeName == node },
		client.MatchingFields{kind.PodsByHostPort: value})
}
