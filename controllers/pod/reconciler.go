// Package pod reconciles Pods: each pod with a network of its own gets an address and a port in the database. There is no
// API write for an ordinary pod: the port itself carries everything to the node.
package pod

import (
	"context"
	"errors"
	"net/netip"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/ipam"
	"github.com/weft-network/weft/pkg/ipam/alloc"
	"github.com/weft-network/weft/pkg/nbdb"
	"github.com/weft-network/weft/pkg/ovndb"
	"github.com/weft-network/weft/pkg/topology"
	"github.com/weft-network/weft/pkg/trigger"
	"github.com/weft-network/weft/pkg/unit"
)

// Database is what the reconciler needs of the engine.
type Database interface {
	Apply(ctx context.Context, u unit.Unit) error
	// Ports lists the ports that exist; it is read once, before the first address is given.
	Ports(ctx context.Context) ([]*nbdb.LogicalSwitchPort, error)
	// Wanted reports whether something was applied under a key in this process.
	Wanted(key unit.Key) bool
}

// Selectors know which groups and sets of pods are in use.
type Selectors interface {
	// Version counts the selectors that came; Of lists the units of those that select a pod.
	Version() uint64
	Of(pod topology.SelectedPod) []unit.Key
	// Gone is told that a pod has no port any more.
	Gone(pod types.NamespacedName)
	// Looked is told that a pod's unit names all of a version, or that it has none.
	Looked(pod types.NamespacedName, version uint64)
}

// Reconciler reconciles Pods.
type Reconciler struct {
	Client    client.Client
	Database  Database
	Addresses *alloc.Allocator
	Events    events.EventRecorder
	Trigger   *trigger.Trigger
	Selectors Selectors
	// Policies reads, once and before the first pod is looked at, what policies use.
	Policies func(context.Context) error
	// Counted is called when the number of used addresses changed.
	Counted func()
	// Looked is called with each pod that was reconciled, whatever came of it.
	Looked func(types.NamespacedName)

	restored restoration
	holders  holders
}

// Reconcile implements reconcile.Reconciler.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	if err := r.Restore(ctx); err != nil {
		return ctrl.Result{}, err
	}
	defer r.Selectors.Looked(req.NamespacedName, r.Selectors.Version())
	var pod corev1.Pod
	err := r.Client.Get(ctx, req.NamespacedName, &pod)
	if client.IgnoreNotFound(err) != nil {
		return ctrl.Result{}, err
	}
	if err != nil || !topology.WantsPort(&pod) {
		r.holders.leave(req.NamespacedName)
		r.Selectors.Gone(req.NamespacedName)
		return ctrl.Result{}, r.release(ctx, req.NamespacedName, "")
	}
	by, err := r.selectedBy(ctx, &pod)
	if err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{}, r.ensure(ctx, &pod, by)
}

// release takes port and address of a name back, but for the address of the owner to keep: the port first, so that the address
// is free only when nobody answers for it.
func (r *Reconciler) release(ctx context.Context, name types.NamespacedName, keep string) error {
	if err := r.removePort(ctx, name); err != nil {
		return err
	}
	r.free(name, keep)
	return nil
}

func (r *Reconciler) removePort(ctx context.Context, name types.NamespacedName) error {
	return ovndb.IgnorePending(r.Database.Apply(ctx, unit.Unit{Key: topology.PodKey(name.Namespace, name.Name)}))
}

// free gives back what earlier pods of the name had, and lets a pod go on that waits for an address of their node.
func (r *Reconciler) free(name types.NamespacedName, keep string) {
	for _, owner := range r.holders.take(name, keep) {
		if node, ok := r.Addresses.Release(owner); ok {
			r.Counted()
			r.Wake(node)
		}
	}
}

// Wake lets the pods go on that wait for an address of a node.
func (r *Reconciler) Wake(node string) {
	for _, waiting := range r.holders.wake(node) {
		r.Trigger.Enqueue(waiting)
	}
}

// ensure gives the pod an address and its port.
func (r *Reconciler) ensure(ctx context.Context, pod *corev1.Pod, by selection) error {
	name := client.ObjectKeyFromObject(pod)
	// What an earlier pod of the name left goes now: this one may have to wait for its node.
	if r.holders.others(name, topology.InterfaceUID(pod)) {
		if err := r.release(ctx, name, ownerOf(pod)); err != nil {
			return err
		}
	}
	var nn networkv1alpha1.NodeNetwork
	err := r.Client.Get(ctx, types.NamespacedName{Name: pod.Spec.NodeName}, &nn, client.UnsafeDisableDeepCopy) // it is only read
	if client.IgnoreNotFound(err) != nil {
		return err
	}
	if err != nil || nn.Status.Chassis == "" {
		return r.park(ctx, pod, by)
	}
	if r.outlives(pod) {
		if err := r.removePort(ctx, name); err != nil {
			return err
		}
	}
	got, err := r.allocate(pod)
	if err != nil {
		return r.explain(pod, err)
	}
	facts := r.facts(pod, &nn, got)
	facts.EgressIP, facts.Selected = by.egressIP, by.selectors
	applied := r.Database.Apply(ctx, topology.PodUnit(facts))
	r.restored.made(ownerOf(pod), pod.Spec.NodeName, nn.Status.Chassis)
	told := r.tell(ctx, pod, applied)
	if applied != nil && !ovndb.IsPending(applied) {
		var rejected *ovndb.RejectedError
		if errors.As(applied, &rejected) { // the end of this process is not the pod's trouble
			r.Events.Eventf(pod, nil, corev1.EventTypeWarning, "FailedPortCreation", "CreatePort", "%v", applied)
		}
		return errors.Join(applied, told)
	}
	return errors.Join(told, r.record(ctx, pod, &nn, got))
}

// outlives reports whether the pod has a port whose address went with the pod's node, which has come again. That port may stand in the way of another
// pod that has got what it had, as that one's stands in this one's: each would wait for the other for ever.
func (r *Reconciler) outlives(pod *corev1.Pod) bool {
	awaits := r.Addresses.Awaits(ownerOf(pod)) // first: what is awaited may come now
	_, _, has := r.Addresses.Get(ownerOf(pod))
	return !has && !awaits && r.Database.Wanted(topology.PodKey(pod.Namespace, pod.Name))
}

// park leaves a pod whose node's network, or agent, is not there yet, and whose arrival comes back here. A port whose address went away
// with its node must not come back when a node of that name does: the address may be another node's then. Without an address, whatever else is left
// of the pod's unit goes: its balancers outlive a port that went with the node's switch.
func (r *Reconciler) park(ctx context.Context, pod *corev1.Pod, by selection) error {
	name, owner := client.ObjectKeyFromObject(pod), ownerOf(pod)
	awaits := r.Addresses.Awaits(owner) // first: what is awaited may come now
	on, got, known := r.Addresses.Get(owner)
	// A static pod has the UID of its file: what one of this UID has on another node is of an earlier one.
	if !known && !awaits || known && on != pod.Spec.NodeName {
		r.restored.forget(owner)
		return r.release(ctx, name, "")
	}
	had, ok := r.restored.of(owner)
	if !ok {
		// The unit that was made for it since follows what selects the pod, and stays on its chassis; or it has none.
		if had.Chassis, ok = r.restored.chassisOf(pod.Spec.NodeName); !ok || !known {
			return nil
		}
	}
	if !known {
		got = alloc.Assignment{MAC: had.MAC, Slot: had.Slot}
		for _, address := range had.Addresses {
			got.Addresses = append(got.Addresses, netip.PrefixFrom(address, address.BitLen()))
		}
		if got.MAC == nil {
			got.MAC = ipam.MAC(had.Addresses)
		}
	}
	// The port stays as it is, and so in its groups: these let go of what nobody wants.
	facts := r.facts(pod, &networkv1alpha1.NodeNetwork{Status: networkv1alpha1.NodeNetworkStatus{Chassis: had.Chassis}}, got)
	facts.EgressIP, facts.Selected = by.egressIP, by.selectors
	return ovndb.IgnorePending(r.Database.Apply(ctx, topology.PodUnit(facts)))
}

func (r *Reconciler) allocate(pod *corev1.Pod) (alloc.Assignment, error) {
	name, owner := client.ObjectKeyFromObject(pod), ownerOf(pod)
	_, _, had := r.Addresses.Get(owner)
	request, err := requestOf(pod)
	if err != nil && !had {
		return alloc.Assignment{}, err
	}
	got, err := r.Addresses.AllocateRequested(pod.Spec.NodeName, owner, request)
	if err != nil {
		r.holders.wait(pod.Spec.NodeName, name)
		// An address that was freed before the pod was known to wait woke nobody.
		got, err = r.Addresses.AllocateRequested(pod.Spec.NodeName, owner, request)
	}
	if err != nil {
		return got, err
	}
	r.holders.add(name, owner)
	if !had {
		r.Counted()
	}
	return got, nil
}

// ownerOf names a pod in the allocator: with its UID, so that a pod of the same name is another owner.
func ownerOf(pod *corev1.Pod) string {
	return owner(pod.Namespace, pod.Name, topology.InterfaceUID(pod))
}

func owner(namespace, name, uid string) string { return namespace + "/" + name + "/" + uid }

// NameOf returns the pod of an owner in the allocator.
func NameOf(owner string) types.NamespacedName {
	namespace, rest, _ := strings.Cut(owner, "/")
	name, _, _ := strings.Cut(rest, "/")
	return types.NamespacedName{Namespace: namespace, Name: name}
}

func (r *Reconciler) facts(pod *corev1.Pod, nn *networkv1alpha1.NodeNetwork, got alloc.Assignment) topology.Pod {
	addresses := make([]netip.Addr, 0, len(got.Addresses))
	for _, a := range got.Addresses {
		addresses = append(addresses, a.Addr())
	}
	return topology.Pod{
		Namespace: pod.Namespace, Name: pod.Name, UID: topology.InterfaceUID(pod), Node: pod.Spec.NodeName, Chassis: nn.Status.Chassis,
		Addresses: addresses, MAC: got.MAC, Slot: got.Slot, Bandwidth: r.bandwidth(pod), HostPorts: r.hostPorts(pod),
	}
}

// hostPorts reads the host ports of a pod.
func (r *Reconciler) hostPorts(pod *corev1.Pod) []topology.HostPort {
	ports, problems := topology.HostPorts(pod)
	if len(problems) > 0 {
		r.Events.Eventf(pod, nil, corev1.EventTypeWarning, "InvalidHostPort", "MapHostPort", "%s", strings.Join(problems, "; "))
	}
	return ports
}

// bandwidth reads the limits of a pod that has its address. One that was changed to what cannot be read has none of them: which were
// meant before, the pod does not say any more.
func (r *Reconciler) bandwidth(pod *corev1.Pod) networkv1alpha1.Bandwidth {
	limits, err := networkv1alpha1.ParseBandwidth(pod.Annotations)
	if err != nil {
		r.Events.Eventf(pod, nil, corev1.EventTypeWarning, "InvalidBandwidth", "LimitBandwidth", "the pod's traffic is not limited: %v", err)
	}
	return limits
}
