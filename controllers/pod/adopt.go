package pod

import (
	"context"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weft-network/weft/pkg/ipam/alloc"
)

// adopt gives a pod the addresses that it reports instead of others. The pod's interface has them, for example from another zone's
// operator, if the report came only after this operator had given the pod others. While another pod has one of them, the pod waits for it.
func (r *Reconciler) adopt(ctx context.Context, pod *corev1.Pod, got alloc.Assignment) alloc.Assignment {
	others := r.othersThanIts(pod)
	if len(others) == 0 {
		return got
	}
	node, name, owner := pod.Spec.NodeName, client.ObjectKeyFromObject(pod), ownerOf(pod)
	request, err := requestOf(pod)
	if err != nil {
		return got // the MAC of its interface is not known
	}
	if err = r.Addresses.Correct(node, owner, others, request.MAC); err != nil {
		r.holders.wait(node, name)
		// An address that was freed before the pod was recorded as waiting enqueued no pod.
		err = r.Addresses.Correct(node, owner, others, request.MAC)
	}
	if err != nil {
		ctrl.LoggerFrom(ctx).Info("cannot give a pod the addresses that it reports", "pod", name, "reason", err.Error())
		return got
	}
	r.Wake(node)
	r.counted() // the addresses may be of another network
	_, corrected, _ := r.Addresses.Get(owner)
	return corrected
}

// othersThanIts returns the addresses that a pod reports if they are of its node's subnets, and the pod does not have all of them.
func (r *Reconciler) othersThanIts(pod *corev1.Pod) []netip.Prefix {
	on, got, known := r.Addresses.Get(ownerOf(pod))
	if !known || on != pod.Spec.NodeName || len(got.Floating) > 0 {
		return nil
	}
	addresses := addressesOf(pod)
	reported := r.Addresses.InSubnets(on, addresses)
	has := func(a netip.Prefix) bool { return slices.Contains(got.Addresses, a) }
	if len(reported) < len(addresses) || !slices.ContainsFunc(reported, func(a netip.Prefix) bool { return !has(a) }) {
		return nil
	}
	return reported
}
