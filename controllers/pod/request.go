package pod

import (
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/ipam"
	"github.com/weft-network/weft/pkg/ipam/alloc"
)

// What a pod asks for in a way that cannot be read: it waits without a port until it asks otherwise.
var (
	errRequest   = errors.New("invalid request")
	errBandwidth = errors.New("invalid bandwidth")
)

// requestOf reads the addresses that a pod asks for. The error is also of what the pod asks for besides, so that it gets all or nothing.
func requestOf(pod *corev1.Pod) (request alloc.Request, err error) {
	if text, asks := pod.Annotations[networkv1alpha1.RequestedIPsAnnotation]; asks {
		if request.Addresses, err = networkv1alpha1.ParseRequestedIPs(text); err != nil {
			return request, fmt.Errorf("%w: %w", errRequest, err)
		}
	}
	if text, asks := pod.Annotations[networkv1alpha1.RequestedMACAnnotation]; asks {
		if request.MAC, err = networkv1alpha1.ParseRequestedMAC(text); err != nil {
			return request, fmt.Errorf("%w: %w", errRequest, err)
		}
	}
	if _, err := networkv1alpha1.ParseBandwidth(pod.Annotations); err != nil {
		return request, fmt.Errorf("%w: %w", errBandwidth, err)
	}
	return request, nil
}

// explain tells the user why there is no port. The pod waits until an address is freed, the node gets a subnet, or it asks otherwise.
func (r *Reconciler) explain(pod *corev1.Pod, err error) error {
	switch {
	case errors.Is(err, ipam.ErrExhausted) || errors.Is(err, alloc.ErrUnavailable) || errors.Is(err, errRequest):
		r.Events.Eventf(pod, nil, corev1.EventTypeWarning, "FailedAddressAllocation", "AllocateAddress", "%v", err)
		return nil
	case errors.Is(err, errBandwidth):
		r.Events.Eventf(pod, nil, corev1.EventTypeWarning, "InvalidBandwidth", "LimitBandwidth", "%v", err)
		return nil
	case errors.Is(err, alloc.ErrUnknownNode):
		return nil
	}
	return fmt.Errorf("pod %s: %w", client.ObjectKeyFromObject(pod), err)
}

// asksOtherwise reports whether what a pod asks for has changed.
func asksOtherwise(before, after *corev1.Pod) bool {
	for _, request := range []string{
		networkv1alpha1.RequestedIPsAnnotation, networkv1alpha1.RequestedMACAnnotation,
		networkv1alpha1.IngressBandwidthAnnotation, networkv1alpha1.EgressBandwidthAnnotation, networkv1alpha1.PodRecordAnnotation,
	} {
		was, asked := before.Annotations[request]
		is, asks := after.Annotations[request]
		if was != is || asked != asks {
			return true
		}
	}
	return false
}
