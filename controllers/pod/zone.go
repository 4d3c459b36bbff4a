package pod

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/ipam"
	"github.com/weft-network/weft/pkg/ipam/alloc"
	"github.com/weft-network/weft/pkg/ovndb"
	"github.com/weft-network/weft/pkg/topology"
)

// follow keeps a pod of another zone in the sets that select it, by the addresses of its status. It also claims the addresses, so that the
// pod has them when its node enters this zone. A port that the pod had here goes.
func (r *Reconciler) follow(ctx context.Context, pod *corev1.Pod, nn *networkv1alpha1.NodeNetwork, by selection) error {
	name, owner := client.ObjectKeyFromObject(pod), ownerOf(pod)
	r.restored.forget(owner)
	addresses := addressesOf(pod)
	if len(addresses) == 0 {
		return r.release(ctx, name, "")
	}
	if on, got, known := r.Addresses.Get(owner); known &&
		(on != nn.Name || !sameAddresses(slices.Concat(ipam.Addresses(got.Addresses), got.Floating), addresses)) {
		r.free(name, "")
	}
	r.holders.add(name, owner)
	if !r.claimReported(nn.Name, owner, addresses) {
		r.holders.wait(nn.Name, name)
		r.claimReported(nn.Name, owner, addresses) // a subnet or an address that came before the pod was recorded as waiting enqueued no pod
	}
	want := topology.Pod{Namespace: pod.Namespace, Name: pod.Name, UID: networkv1alpha1.InterfaceUID(pod), Node: nn.Name,
		Addresses: addresses, MAC: ipam.MAC(addresses), EgressIP: by.egressIP, Selected: by.selectors}
	applied := ovndb.IgnorePending(r.Database.Apply(ctx, topology.PodElsewhereUnit(want)))
	if applied == nil {
		r.holdOnly(owner, given{})
	}
	return applied
}

// claimReported claims what a pod elsewhere reports. It fails while this operator does not know the subnet, and while another owner has
// the address, and always for a floating address.
func (r *Reconciler) claimReported(node, owner string, addresses []netip.Addr) bool {
	if _, _, known := r.Addresses.Get(owner); known {
		return true
	}
	err := r.claimAll(node, owner, addresses, alloc.Assignment{Addresses: r.Addresses.InSubnets(node, addresses)})
	if err == nil {
		r.counted()
	}
	return err == nil
}

// addressesOf returns the addresses in a pod's status.
func addressesOf(pod *corev1.Pod) (all []netip.Addr) {
	for _, ip := range pod.Status.PodIPs {
		if address, err := netip.ParseAddr(ip.IP); err == nil {
			all = append(all, address)
		}
	}
	return all
}

// checkZone returns an error for a pod with requests that only the part of the cluster without a name fulfils. A pod that has its address
// keeps its port, without further networks.
func (r *Reconciler) checkZone(ctx context.Context, pod *corev1.Pod) error {
	if !r.Zone.Follows() {
		return nil
	}
	for _, annotation := range networkv1alpha1.FloatingAnnotations() {
		if _, ok := pod.Annotations[annotation]; ok {
			return fmt.Errorf("%w: annotation %s: zone %s has no floating addresses; only nodes outside the zones of ClusterNetwork's "+
				"spec.zones have them", errRequest, annotation, r.Zone)
		}
	}
	if _, _, has := r.Addresses.Get(ownerOf(pod)); has {
		return nil
	}
	generation, err := r.networksOf(ctx, pod)
	if err == nil && generation != "" {
		err = fmt.Errorf("%w: zone %s attaches no further networks; only nodes outside the zones of ClusterNetwork's spec.zones do",
			errRequest, r.Zone)
	}
	return err
}

// addressed passes updates of the addresses of a pod elsewhere, and of a pod here that reports others than it has.
func (r *Reconciler) addressed(e event.UpdateEvent) bool {
	before, ok := e.ObjectOld.(*corev1.Pod)
	after, ok2 := e.ObjectNew.(*corev1.Pod)
	if !ok || !ok2 || equality.Semantic.DeepEqual(before.Status.PodIPs, after.Status.PodIPs) || !facts.WantsPort(after) {
		return false
	}
	var nn networkv1alpha1.NodeNetwork
	err := r.Client.Get(context.Background(), types.NamespacedName{Name: after.Spec.NodeName}, &nn, client.UnsafeDisableDeepCopy) // only read
	return err == nil && (r.Zone.Elsewhere(&nn) || len(r.othersThanIts(after)) > 0)
}

// wasElsewhere passes the deletion of the network of a node elsewhere. Pods of this zone's nodes lose their addresses with the node.
func (r *Reconciler) wasElsewhere(e event.DeleteEvent) bool {
	nn, ok := e.Object.(*networkv1alpha1.NodeNetwork)
	return !ok || r.Zone.Elsewhere(nn)
}
