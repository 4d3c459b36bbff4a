package pod

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/floating"
	"github.com/weft-network/weft/pkg/ipam"
	"github.com/weft-network/weft/pkg/ipam/alloc"
	"github.com/weft-network/weft/pkg/networks"
	"github.com/weft-network/weft/pkg/topology"
)

// enlargement is how long a node may take to get another subnet.
const enlargement = time.Second

// Errors of unreadable requests. The pod waits without a port until its request changes.
var (
	errRequest   = errors.New("invalid request")
	errBandwidth = errors.New("invalid bandwidth")
	errHostPorts = errors.New("invalid random host ports")
)

// requestOf reads the addresses that a pod requests. The error also covers its other requests, so that it gets all or
// nothing.
func requestOf(pod *corev1.Pod) (request alloc.Request, err error) {
	if text, ok := pod.Annotations[networkv1alpha1.RequestedIPsAnnotation]; ok {
		if request.Addresses, err = networkv1alpha1.ParseRequestedIPs(text); err != nil {
			return request, fmt.Errorf("%w: %w", errRequest, err)
		}
	}
	if text, ok := pod.Annotations[networkv1alpha1.RequestedMACAnnotation]; ok {
		if request.MAC, err = networkv1alpha1.ParseRequestedMAC(text); err != nil {
			return request, fmt.Errorf("%w: %w", errRequest, err)
		}
	}
	if _, err := networkv1alpha1.ParseBandwidth(pod.Annotations); err != nil {
		return request, fmt.Errorf("%w: %w", errBandwidth, err)
	}
	if _, err := facts.RandomHostPorts(pod); err != nil {
		return request, fmt.Errorf("%w: %w", errHostPorts, err)
	}
	return request, nil
}

// wait leaves a pod that gets no address, and reports why. Without a claim on an address, all rows of the pod go: its address may belong
// to another pod, and the routes of a floating address outlive a port that was deleted while no operator ran. On a node
// whose subnets are not known yet the rows stay.
//
// A node whose subnets are exhausted may get another one in a moment, so that the condition waits for a second attempt.
func (r *Reconciler) wait(ctx context.Context, pod *corev1.Pod, reason error) error {
	name := client.ObjectKeyFromObject(pod)
	isFirst := errors.Is(reason, ipam.ErrExhausted) && !r.lacking.has(name)
	if err := r.leaveWaiting(ctx, pod, reason); err != nil || errors.Is(reason, alloc.ErrUnknownNode) {
		return err
	}
	if isFirst {
		r.Triggers.EnqueueAfter(topology.KindPod, name, enlargement)
		return nil
	}
	return r.patchConditions(ctx, pod, false, requestsGranted(pod, reason))
}

// leaveWaiting is wait without the pod's condition.
func (r *Reconciler) leaveWaiting(ctx context.Context, pod *corev1.Pod, reason error) error {
	full := ""
	if errors.Is(reason, ipam.ErrExhausted) {
		full = pod.Spec.NodeName
	}
	r.setLacking(client.ObjectKeyFromObject(pod), full)
	owner := ownerOf(pod)
	awaits := r.Addresses.Awaits(owner) // first, because an awaited claim may succeed now
	if _, _, has := r.Addresses.Get(owner); !has && !awaits && !errors.Is(reason, alloc.ErrUnknownNode) {
		if err := r.removePort(ctx, client.ObjectKeyFromObject(pod)); err != nil {
			return err
		}
		r.holdOnly(owner, given{})
		r.unrouted(pod.Spec.NodeName)
	}
	return r.explain(pod, reason)
}

// lack leaves a pod that gets no address of its IPPool, without its condition. A port with a floating address goes, because
// another pod may have the address now.
func (r *Reconciler) lack(ctx context.Context, pod *corev1.Pod, reason error) error {
	name, owner := client.ObjectKeyFromObject(pod), ownerOf(pod)
	if !errors.As(reason, new(*floating.UnavailableError)) && !errors.Is(reason, errRequest) {
		return reason
	}
	if _, had, ok := r.Addresses.Get(owner); ok && !sameAddresses(had.Floating, r.held(pod, had).own) {
		if err := r.release(ctx, name, ""); err != nil {
			return err
		}
		r.Triggers.Enqueue(topology.KindPod, name) // without an address, it may get what it could not get besides that address
	}
	return r.leaveWaiting(ctx, pod, reason)
}

// denialReason returns the reason of the condition of a pod whose request was denied.
func denialReason(err error) string {
	switch {
	case errors.As(err, new(*floating.UnavailableError)), errors.Is(err, alloc.ErrUnavailable):
		return networkv1alpha1.ReasonAddressUnavailable
	case errors.Is(err, ipam.ErrExhausted):
		return networkv1alpha1.ReasonAddressesExhausted
	}
	return networkv1alpha1.ReasonInvalidRequest
}

// unreadable returns why a pod with an address would not get one again, or nil. The condition of host ports reports those.
func unreadable(pod *corev1.Pod) error {
	if _, err := requestOf(pod); err != nil && !errors.Is(err, errHostPorts) {
		return err
	}
	return nil
}

// hasAssignment reports whether a pod that lacks an address of its IPPool has a port, which stays without the
// translations that the pod lost: another pod may have them now.
func (r *Reconciler) hasAssignment(pod *corev1.Pod) bool {
	_, _, has := r.Addresses.Get(ownerOf(pod))
	return has
}

// explain records an event with the reason why the pod has no port. The pod waits until an address is freed, the node
// gets a subnet, or its request changes.
func (r *Reconciler) explain(pod *corev1.Pod, err error) error {
	switch {
	case errors.As(err, new(*floating.UnavailableError)) || errors.Is(err, ipam.ErrExhausted) ||
		errors.Is(err, alloc.ErrUnavailable) || errors.Is(err, errRequest):
		r.Events.Eventf(pod, nil, corev1.EventTypeWarning, "FailedAddressAllocation", "AllocateAddress", "%v", err)
		return nil
	case errors.Is(err, errBandwidth):
		r.Events.Eventf(pod, nil, corev1.EventTypeWarning, "InvalidBandwidth", "LimitBandwidth", "%v", err)
		return nil
	case errors.Is(err, errHostPorts):
		r.Events.Eventf(pod, nil, corev1.EventTypeWarning, "InvalidHostPort", "MapHostPort", "%v", err)
		return nil
	case errors.Is(err, alloc.ErrUnknownNode):
		return nil
	}
	return fmt.Errorf("pod %s: %w", client.ObjectKeyFromObject(pod), err)
}

// networksOf returns the generation of the networks that the pod's node attaches by annotation; empty: none.
func (r *Reconciler) networksOf(ctx context.Context, pod *corev1.Pod) (string, error) {
	generation := networks.Generation(pod.Annotations)
	if generation == "" {
		return "", nil
	}
	var cn networkv1alpha1.ClusterNetwork
	name := types.NamespacedName{Name: networkv1alpha1.ClusterNetworkName}
	err := r.Client.Get(ctx, name, &cn, client.UnsafeDisableDeepCopy) // it is only read
	if cn.Spec.AttachmentProvider == networkv1alpha1.AttachmentProviderMultus {
		return "", nil
	}
	return generation, client.IgnoreNotFound(err)
}

// requestChanged reports whether a pod's requests have changed.
func requestChanged(before, after *corev1.Pod) bool {
	for _, request := range append(networkv1alpha1.FloatingAnnotations(),
		networkv1alpha1.RequestedIPsAnnotation, networkv1alpha1.RequestedMACAnnotation,
		networkv1alpha1.IngressBandwidthAnnotation, networkv1alpha1.EgressBandwidthAnnotation, networkv1alpha1.PodRecordAnnotation,
		networks.Annotation, networks.DefaultAnnotation, networkv1alpha1.RandomHostPortsAnnotation,
		networkv1alpha1.GalaxyPortMappingAnnotation, networkv1alpha1.HostPortsAnnotation,
	) {
		was, had := before.Annotations[request]
		is, has := after.Annotations[request]
		if was != is || had != has {
			return true
		}
	}
	return false
}
