package pod

import (
	"context"
	"fmt"
	"net/netip"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/ipam/alloc"
	"github.com/weft-network/weft/pkg/nbdb"
	"github.com/weft-network/weft/pkg/topology"
)

// restoration runs once, before the first address is given.
type restoration struct {
	mu   sync.Mutex
	done bool
}

func (r *restoration) once(ctx context.Context, restore func(context.Context) error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.done {
		return nil
	}
	if err := restore(ctx); err != nil {
		return err
	}
	r.done = true
	return nil
}

// restore derives the allocator from what is durable: the ports in the database, then the addresses that running pods
// report. Ports of pods that are gone keep their address until the sweep has removed them.
func (r *Reconciler) restore(ctx context.Context) error {
	ports, err := r.Database.Ports(ctx)
	if err != nil {
		return fmt.Errorf("restore addresses: %w", err)
	}
	if err := r.restoreNodes(ctx); err != nil {
		return err
	}
	var pods corev1.PodList
	if err := r.Client.List(ctx, &pods); err != nil {
		return err
	}
	nodes := map[string]string{} // owner -> node
	for i := range pods.Items {
		if pod := &pods.Items[i]; wantsPort(pod) {
			nodes[ownerOf(pod)] = pod.Spec.NodeName
		}
	}
	for _, row := range ports {
		r.restorePort(ctx, row, nodes)
	}
	for i := range pods.Items {
		r.restorePod(ctx, &pods.Items[i])
	}
	return nil
}

func (r *Reconciler) restoreNodes(ctx context.Context) error {
	var list networkv1alpha1.NodeNetworkList
	if err := r.Client.List(ctx, &list); err != nil {
		return err
	}
	for i := range list.Items {
		node, err := topology.ParseNodeNetwork(&list.Items[i])
		if err != nil {
			return err
		}
		r.Addresses.SetNode(node.Name, node.Subnets)
	}
	return nil
}

// restorePort claims what a port has: for its pod, or for the name of one that is gone.
func (r *Reconciler) restorePort(ctx context.Context, row *nbdb.LogicalSwitchPort, nodes map[string]string) {
	log := ctrl.LoggerFrom(ctx)
	port, ok, err := topology.ParsePodPortRow(row)
	if err != nil {
		log.Info("port cannot be read", "port", row.Name, "reason", err.Error())
	}
	if !ok || err != nil {
		return
	}
	owner := owner(port.Namespace, port.Name, port.UID)
	node, lives := nodes[owner]
	if !lives {
		node = r.Addresses.NodeOf(port.Addresses)
	}
	r.claim(ctx, node, owner, types.NamespacedName{Namespace: port.Namespace, Name: port.Name}, port.Addresses, port.Slot)
}

// restorePod claims what a pod reports, if its port did not say so already.
func (r *Reconciler) restorePod(ctx context.Context, pod *corev1.Pod) {
	if _, _, known := r.Addresses.Get(ownerOf(pod)); known || !wantsPort(pod) || len(pod.Status.PodIPs) == 0 {
		return
	}
	var addresses []netip.Addr
	for _, ip := range pod.Status.PodIPs {
		if address, err := netip.ParseAddr(ip.IP); err == nil {
			addresses = append(addresses, address)
		}
	}
	r.claim(ctx, pod.Spec.NodeName, ownerOf(pod), client.ObjectKeyFromObject(pod), addresses, 0)
}

func (r *Reconciler) claim(ctx context.Context, node, owner string, pod types.NamespacedName, addresses []netip.Addr, slot int) {
	want := alloc.Assignment{Addresses: r.Addresses.InSubnets(node, addresses), Slot: slot}
	if _, err := r.Addresses.Claim(node, owner, want); err != nil {
		// It gets a new address: its present one is of no subnet of the node, or somebody else's.
		ctrl.LoggerFrom(ctx).Info("address is not restored", "pod", pod, "node", node, "reason", err.Error())
		return
	}
	r.holders.add(pod, owner)
}
