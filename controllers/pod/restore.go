package pod

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/ipam"
	"github.com/weft-network/weft/pkg/ipam/alloc"
	"github.com/weft-network/weft/pkg/ovn/nbdb"
	"github.com/weft-network/weft/pkg/topology"
)

// restoration runs once, before the first address is assigned.
type restoration struct {
	mu   sync.Mutex // held while it runs, which waits for the database
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

// remember makes to, which has no state yet, a reconciler that continues this one's, for a plan.
func (r *Reconciler) remember(to *Reconciler) {
	r.restored.mu.Lock()
	to.restored.done = r.restored.done
	r.restored.mu.Unlock()
	r.state.copyTo(&to.state)
}

// Restore fills the allocator once. It waits for the database.
func (r *Reconciler) Restore(ctx context.Context) error { return r.restored.once(ctx, r.restore) }

// restore derives the allocator from durable state, in this order: the ports of existing pods, the addresses in the
// status of running pods, and the ports of deleted pods. The latter keep their address until the sweep has removed
// them. Of a port that another program has changed, the status of its pod has the addresses.
func (r *Reconciler) restore(ctx context.Context) error {
	if err := r.Selectors.Load(ctx); err != nil {
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
	if err := r.Client.List(ctx, &pods); err != nil {
		return err
	}
	exist := map[alloc.Owner]*corev1.Pod{}
	for i := range pods.Items {
		if pod := &pods.Items[i]; facts.WantsPort(pod) {
			exist[ownerOf(pod)] = pod
		}
	}
	vanished := r.restorePorts(ctx, ports, func(p *topology.PortAssignment) (node string, ok bool) {
		pod := exist[alloc.PodOwner(p.Namespace, p.Name, p.UID)]
		if pod == nil {
			return "", false
		}
		if _, ok := pod.Annotations[networkv1alpha1.RequestedMACAnnotation]; !ok {
			p.MAC = nil // it is derived from the addresses, whatever the row contains
		}
		if p.Changed && len(pod.Status.PodIPs) > 0 {
			p.Addresses = addressesOf(pod)
		}
		r.state.store(ownerOf(pod), *p)
		return pod.Spec.NodeName, true
	})
	for i := range pods.Items {
		r.restorePod(ctx, &pods.Items[i])
	}
	r.restorePorts(ctx, vanished, func(p *topology.PortAssignment) (node string, ok bool) {
		return r.Addresses.NodeOf(p.Addresses), true
	})
	full, err := r.restoreLacking(ctx, pods.Items)
	if err != nil {
		return err
	}
	r.Addresses.Complete()
	// These nodes were reconciled before the addresses were known.
	for _, node := range r.Addresses.IdleNodes() {
		r.vacated(node)
	}
	for node := range full {
		r.Triggers.Enqueue(topology.KindNode, types.NamespacedName{Name: node})
	}
	return nil
}

func (r *Reconciler) restoreNodes(ctx context.Context) error {
	var list networkv1alpha1.NodeNetworkList
	if err := r.Client.List(ctx, &list); err != nil {
		return err
	}
	for i := range list.Items {
		node, err := facts.ParseNodeNetwork(&list.Items[i])
		if err != nil { // foreign or incomplete; the node controller handles it
			ctrl.LoggerFrom(ctx).Info("cannot read a NodeNetwork; its node's addresses are not restored", "node",
				list.Items[i].Name, "reason", err.Error())
			continue
		}
		r.Addresses.SetNode(node.Name, node.Subnets, node.Leaving)
		r.NodeRestored(&list.Items[i])
	}
	return nil
}

// restorePorts claims the addresses of ports. It returns the ports for which nodeOf, which may correct a port, finds
// no node.
func (r *Reconciler) restorePorts(ctx context.Context, ports []*nbdb.LogicalSwitchPort,
	nodeOf func(*topology.PortAssignment) (string, bool)) (rest []*nbdb.LogicalSwitchPort) {
	for _, row := range ports {
		port, ok, err := topology.ParsePodPortRow(row)
		if err != nil {
			ctrl.LoggerFrom(ctx).Info("cannot read a port; its address is not restored", "port", row.Name, "reason", err.Error())
			r.holdUnreadable(ctx, port)
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
		r.claim(ctx, node, alloc.PodOwner(port.Namespace, port.Name, port.UID), port)
	}
	return rest
}

// holdUnreadable holds the floating addresses of a port that cannot be read. They are free when the pod of that name has
// another port or none.
func (r *Reconciler) holdUnreadable(ctx context.Context, port topology.PortAssignment) {
	all := slices.Concat(port.Floating, port.Translated)
	if len(all) == 0 {
		return
	}
	name, uid := types.NamespacedName{Namespace: port.Namespace, Name: port.Name}, port.UID
	var pod corev1.Pod
	if err := r.Client.Get(ctx, name, &pod); err == nil {
		uid = networkv1alpha1.InterfaceUID(&pod)
	}
	owner := alloc.PodOwner(name.Namespace, name.Name, uid)
	r.state.add(owner)
	r.Addresses.Hold(owner, all)
}

// restorePod claims the addresses in a pod's status, unless its port has them already.
func (r *Reconciler) restorePod(ctx context.Context, pod *corev1.Pod) {
	if _, _, known := r.Addresses.Get(ownerOf(pod)); known || !facts.WantsPort(pod) || len(pod.Status.PodIPs) == 0 {
		return
	}
	had := topology.PortAssignment{Addresses: addressesOf(pod)}
	if requested, err := readAddresses(pod.Annotations); err == nil {
		had.MAC = requested.MAC
	}
	r.claim(ctx, pod.Spec.NodeName, ownerOf(pod), had)
}

// claim restores the assignment of an owner. It records the owner even if the claim fails, because the owner may have
// a port that must be removed with it.
func (r *Reconciler) claim(ctx context.Context, node string, owner alloc.Owner, had topology.PortAssignment) {
	r.state.add(owner)
	r.Addresses.Hold(owner, slices.Concat(had.Floating, had.Translated)) // also if the claim fails, because the port has them
	own := slices.DeleteFunc(slices.Clone(had.Addresses), func(a netip.Addr) bool { return slices.Contains(had.Floating, a) })
	want := alloc.Assignment{Addresses: r.Addresses.InSubnets(node, own), Floating: had.Floating, Slot: had.Slot}
	if ipam.CheckMAC(had.MAC) == nil {
		want.MAC = had.MAC
	}
	err := r.claimAll(node, owner, own, want)
	if errors.Is(err, alloc.ErrUnknownNode) && node != "" {
		// A user has just deleted the node's NodeNetwork. It is recreated with the same subnets, if no other node has them.
		r.Addresses.ClaimLater(node, owner, own, want)
	}
	if err != nil {
		// It gets a new address, because its present address is in no subnet of the node or belongs to another owner.
		ctrl.LoggerFrom(ctx).Info("cannot restore an address; the pod gets a new one", "pod", owner.Pod(), "node", node, "reason", err.Error())
	}
}

// claimAll claims the addresses that the node gave to an owner, all or none: an owner may lack a family that is younger
// than the owner, but it does not keep some of its addresses and lose others.
func (r *Reconciler) claimAll(node string, owner alloc.Owner, own []netip.Addr, want alloc.Assignment) error {
	if r.Addresses.HasNode(node) && len(want.Addresses) < len(own) {
		return fmt.Errorf("node %s: not all of %v are in its subnets", node, own)
	}
	_, err := r.Addresses.Claim(node, owner, want)
	return err
}

// restoreLacking records the pods without an address on nodes with the condition SubnetsFull, so that the condition stays
// until these pods are reconciled. It returns the nodes with the condition.
func (r *Reconciler) restoreLacking(ctx context.Context, pods []corev1.Pod) (full map[string]bool, err error) {
	if !r.Zone.Follows() {
		return nil, nil
	}
	var list networkv1alpha1.NodeNetworkList
	if err := r.Client.List(ctx, &list); err != nil {
		return nil, err
	}
	full = map[string]bool{}
	for i := range list.Items {
		nn := &list.Items[i]
		if !r.Zone.Elsewhere(nn) && meta.FindStatusCondition(nn.Status.Conditions, networkv1alpha1.ConditionSubnetsFull) != nil {
			full[nn.Name] = true
		}
	}
	for i := range pods {
		pod := &pods[i]
		if _, _, has := r.Addresses.Get(ownerOf(pod)); !has && full[pod.Spec.NodeName] && facts.WantsPort(pod) {
			r.state.setLacking(client.ObjectKeyFromObject(pod), pod.Spec.NodeName)
		}
	}
	return full, nil
}
