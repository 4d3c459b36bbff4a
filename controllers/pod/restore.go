package pod

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/ipam"
	"github.com/weft-network/weft/pkg/ipam/alloc"
	"github.com/weft-network/weft/pkg/nbdb"
	"github.com/weft-network/weft/pkg/topology"
)

// restoration runs once, before the first address is given.
type restoration struct {
	mu   sync.Mutex
	done bool
	// kept is what the ports say of pods that no unit was made for since, by owner.
	kept map[string]topology.PortAssignment
	// chassis is each node's, as of the last unit that was made for a pod on it.
	chassis map[string]string
}

func (r *restoration) keep(owner string, port topology.PortAssignment) { // while restore runs
	if r.kept == nil {
		r.kept = map[string]topology.PortAssignment{}
	}
	r.kept[owner] = port
}

// of returns what a pod's port says, if no unit was made for the pod since.
func (r *restoration) of(owner string) (port topology.PortAssignment, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	port, ok = r.kept[owner]
	return port, ok
}

// made says that the pod has a unit now, for a node with a chassis.
func (r *restoration) made(owner, node, chassis string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.kept, owner)
	if r.chassis == nil {
		r.chassis = map[string]string{}
	}
	r.chassis[node] = chassis
}

// chassisOf returns a node's chassis, if a unit was made for a pod on it.
func (r *restoration) chassisOf(node string) (chassis string, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	chassis, ok = r.chassis[node]
	return chassis, ok
}

// forget says that the pod has no port.
func (r *restoration) forget(owner string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.kept, owner)
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

// Restore fills the allocator once; it waits for the database.
func (r *Reconciler) Restore(ctx context.Context) error { return r.restored.once(ctx, r.restore) }

// restore derives the allocator from what is durable: the ports of pods that exist, then the addresses that running pods
// report, then the ports of pods that are gone, which keep their address until the sweep has removed them.
func (r *Reconciler) restore(ctx context.Context) error {
	if err := r.Policies(ctx); err != nil {
		return err
	}
	ports, err := r.Database.Ports(ctx)
	if err != nil {
		return fmt.Errorf("restore addresses: %w", err)
	}
	if err := r.restoreNodes(ctx); err != nil {
		return err
	}
	var pods corev1.PodList
	if err := r.Client.List(ctx, &pods, client.UnsafeDisableDeepCopy); err != nil { // they are only read
		return err
	}
	exist := map[string]*corev1.Pod{} // owner -> pod
	for i := range pods.Items {
		if pod := &pods.Items[i]; topology.WantsPort(pod) {
			exist[ownerOf(pod)] = pod
		}
	}
	vanished := r.restorePorts(ctx, ports, func(p *topology.PortAssignment) (node string, ok bool) {
		pod := exist[owner(p.Namespace, p.Name, p.UID)]
		if pod == nil {
			return "", false
		}
		if _, asks := pod.Annotations[networkv1alpha1.RequestedMACAnnotation]; !asks {
			p.MAC = nil // it follows from the addresses, whatever somebody made of it
		}
		r.restored.keep(ownerOf(pod), *p)
		return pod.Spec.NodeName, true
	})
	for i := range pods.Items {
		r.restorePod(ctx, &pods.Items[i])
	}
	r.restorePorts(ctx, vanished, func(p *topology.PortAssignment) (node string, ok bool) {
		return r.Addresses.NodeOf(p.Addresses), true
	})
	r.Addresses.Complete()
	return nil
}

func (r *Reconciler) restoreNodes(ctx context.Context) error {
	var list networkv1alpha1.NodeNetworkList
	if err := r.Client.List(ctx, &list); err != nil {
		return err
	}
	for i := range list.Items {
		node, err := topology.ParseNodeNetwork(&list.Items[i])
		if err != nil { // somebody else's, or not complete: the node controller sees to it
			ctrl.LoggerFrom(ctx).Info("NodeNetwork cannot be read", "node", list.Items[i].Name, "reason", err.Error())
			continue
		}
		r.Addresses.SetNode(node.Name, node.Subnets)
	}
	return nil
}

// restorePorts claims what ports have and returns those that nodeOf, which may correct what a port says, knows no node for.
func (r *Reconciler) restorePorts(ctx context.Context, ports []*nbdb.LogicalSwitchPort, nodeOf func(*topology.PortAssignment) (string, bool)) (rest []*nbdb.LogicalSwitchPort) {
	for _, row := range ports {
		port, ok, err := topology.ParsePodPortRow(row)
		if err != nil {
			ctrl.LoggerFrom(ctx).Info("port cannot be read", "port", row.Name, "reason", err.Error())
		}
		if !ok || err != nil {
			continue
		}
		node, ok := nodeOf(&port)
		if !ok {
			r.Addresses.SkipSlot(r.Addresses.NodeOf(port.Addresses), port.Slot)
			rest = append(rest, row)
			continue
		}
		name := types.NamespacedName{Namespace: port.Namespace, Name: port.Name}
		r.claim(ctx, node, owner(port.Namespace, port.Name, port.UID), name, port)
	}
	return rest
}

// restorePod claims what a pod reports, if its port did not say so already.
func (r *Reconciler) restorePod(ctx context.Context, pod *corev1.Pod) {
	if _, _, known := r.Addresses.Get(ownerOf(pod)); known || !topology.WantsPort(pod) || len(pod.Status.PodIPs) == 0 {
		return
	}
	var had topology.PortAssignment
	for _, ip := range pod.Status.PodIPs {
		if address, err := netip.ParseAddr(ip.IP); err == nil {
			had.Addresses = append(had.Addresses, address)
		}
	}
	if request, err := requestOf(pod); err == nil {
		had.MAC = request.MAC
	}
	r.claim(ctx, pod.Spec.NodeName, ownerOf(pod), client.ObjectKeyFromObject(pod), had)
}

// claim restores what an owner has. Whether that succeeds or not, the owner may have a port that must go with it.
func (r *Reconciler) claim(ctx context.Context, node, owner string, pod types.NamespacedName, had topology.PortAssignment) {
	r.holders.add(pod, owner)
	want := alloc.Assignment{Addresses: r.Addresses.InSubnets(node, had.Addresses), Slot: had.Slot}
	if ipam.CheckMAC(had.MAC) == nil {
		want.MAC = had.MAC
	}
	_, err := r.Addresses.Claim(node, owner, want)
	if errors.Is(err, alloc.ErrUnknownNode) && node != "" {
		// Somebody deleted the node's NodeNetwork in this moment: it comes again, most likely with the same subnets.
		r.Addresses.ClaimLater(node, owner, had.Addresses, want)
	}
	if err != nil {
		// It gets a new address: its present one is of no subnet of the node, or somebody else's.
		ctrl.LoggerFrom(ctx).Info("address is not restored", "pod", pod, "node", node, "reason", err.Error())
	}
}
