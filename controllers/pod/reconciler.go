// Package pod reconciles Pods. Each pod with a network of its own gets an address and a port in the database. An
// ordinary pod costs no API write, because the port carries everything to the node.
package pod

import (
	"cmp"
	"context"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/controllers/kind"
	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/floating/claim"
	"github.com/weft-network/weft/pkg/ipam"
	"github.com/weft-network/weft/pkg/ipam/alloc"
	"github.com/weft-network/weft/pkg/ovn/nbdb"
	"github.com/weft-network/weft/pkg/ovndb"
	"github.com/weft-network/weft/pkg/reserved/lookup"
	"github.com/weft-network/weft/pkg/topology"
	"github.com/weft-network/weft/pkg/trigger"
	"github.com/weft-network/weft/pkg/unit"
)

// Database is the part of the engine that the reconciler uses.
type Database interface {
	Apply(ctx context.Context, u unit.Unit) error
	// Ports lists the existing ports. It is read once, before the first address is assigned.
	Ports(ctx context.Context) ([]*nbdb.LogicalSwitchPort, error)
	// Wanted reports whether this process has applied a non-empty unit under the key.
	Wanted(key unit.Key) bool
	// Has reports whether the server has an optional column.
	Has(table, column string) bool
}

// Selectors records which groups and sets of pods are in use.
type Selectors interface {
	// Load reads all policies once. It must return before the first pod is reconciled.
	Load(ctx context.Context) error
	// Started records that the reconciliation of a pod's unit begins. Of lists the units of the selectors that select a pod.
	Started(pod unit.Key)
	Of(pod facts.SelectedPod) []unit.Key
	// Relabel changes the selectors of a namespace's pods after a change of the namespace's labels.
	Relabel(ctx context.Context, before, after labels.Set, pods func(context.Context) ([]facts.SelectedPod, error)) error
	// Gone records that a pod has no port any more.
	Gone(pod types.NamespacedName)
	// Reconciled records that the reconciliation has ended.
	Reconciled(pod unit.Key)
}

// Reconciler reconciles Pods.
type Reconciler struct {
	Client    client.Client
	Database  Database
	Reserved  lookup.Lookup
	Addresses *alloc.Allocator
	Events    events.EventRecorder
	Triggers  *trigger.Set
	Selectors Selectors
	// Floating gives addresses of IPPools.
	Floating *claim.Claimer
	Zone     kind.Zone
	// CountDelay is how long the ClusterNetwork's count of used addresses may be behind.
	CountDelay time.Duration
	// PortsFreed publishes a floating address that no port has any more.
	PortsFreed *kind.Topic[netip.Addr]
	// NodeRestored is called with each NodeNetwork when Addresses is filled.
	NodeRestored func(*networkv1alpha1.NodeNetwork)

	restored restoration
	holders  holders
	lacking  lacking
	egress   atomic.Bool // there were EgressIPs or ExternalRoutes
	routes   atomic.Bool // there were ExternalRoutes
}

// Reconcile implements reconcile.Reconciler.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	if err := r.Restore(ctx); err != nil {
		return ctrl.Result{}, err
	}
	if err := r.Floating.Load(ctx); err != nil { // also without a request a pod may have floating addresses
		return ctrl.Result{}, err
	}
	key := topology.PodKey(req.Namespace, req.Name)
	r.Selectors.Started(key)
	defer r.Selectors.Reconciled(key)
	var pod corev1.Pod
	err := r.Client.Get(ctx, req.NamespacedName, &pod, client.UnsafeDisableDeepCopy) // it is only read
	if client.IgnoreNotFound(err) != nil {
		return ctrl.Result{}, err
	}
	if err != nil || !facts.WantsPort(&pod) {
		r.holders.leave(req.NamespacedName)
		r.setLacking(req.NamespacedName, "")
		r.Selectors.Gone(req.NamespacedName)
		return ctrl.Result{}, r.release(ctx, req.NamespacedName, "")
	}
	by, err := r.selectedBy(ctx, &pod)
	if err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{}, r.ensure(ctx, &pod, by)
}

// release frees the port and the addresses of a name, except the address of the owner keep. The port is removed
// first, so that the address becomes free only when nothing responds at it.
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

// free frees the addresses of earlier pods of the name, and enqueues pods that wait for an address of their node.
func (r *Reconciler) free(name types.NamespacedName, keep string) {
	for _, owner := range r.holders.take(name, keep) {
		held := r.Addresses.Held(owner)
		if node, ok := r.Addresses.Release(owner); ok {
			r.counted()
			r.Wake(node)
			r.vacated(node)
			r.unrouted(node)
		}
		for _, address := range held {
			r.freedPort(address)
		}
	}
}

// Wake enqueues the pods that wait for an address of a node.
func (r *Reconciler) Wake(node string) {
	for _, waiting := range r.holders.wake(node) {
		r.Triggers.Enqueue(topology.KindPod, waiting)
	}
}

// counted enqueues the ClusterNetwork, whose status counts the addresses in use.
func (r *Reconciler) counted() {
	r.Triggers.EnqueueAfter(topology.KindNetwork, types.NamespacedName{Name: networkv1alpha1.ClusterNetworkName}, r.CountDelay)
}

// lost enqueues the pods whose addresses went with their node.
func (r *Reconciler) lost(owners []string) {
	for _, owner := range owners {
		r.Triggers.Enqueue(topology.KindPod, NameOf(owner))
	}
	r.counted()
}

// ensure gives the pod an address and its port.
func (r *Reconciler) ensure(ctx context.Context, pod *corev1.Pod, by selection) error {
	name := client.ObjectKeyFromObject(pod)
	// Remove what an earlier pod of the name left, because this pod may have to wait for its node.
	if r.holders.others(name, networkv1alpha1.InterfaceUID(pod)) {
		if err := r.release(ctx, name, ownerOf(pod)); err != nil {
			return err
		}
	}
	var nn networkv1alpha1.NodeNetwork
	// it is only read
	err := r.Client.Get(ctx, types.NamespacedName{Name: pod.Spec.NodeName}, &nn, client.UnsafeDisableDeepCopy)
	if client.IgnoreNotFound(err) != nil {
		return err
	}
	switch {
	case err == nil && r.Zone.Elsewhere(&nn):
		r.setLacking(name, "")
		return r.follow(ctx, pod, &nn, by)
	case err != nil || nn.Status.Chassis == "":
		r.setLacking(name, "")
		return r.park(ctx, pod, by)
	}
	if len(nn.Spec.TransitAddresses) > 0 {
		r.restorePod(ctx, pod) // if another zone's operator gave it addresses that could not be claimed when it followed the pod
	}
	if err := r.checkZone(ctx, pod); errors.Is(err, errRequest) {
		// Its elements of sets, from when its node was elsewhere, go.
		return errors.Join(r.release(ctx, name, ""), r.wait(ctx, pod, err))
	} else if err != nil {
		return err
	}
	if r.outlives(pod) {
		if err := r.removePort(ctx, name); err != nil {
			return err
		}
	}
	addresses, lacks := r.give(ctx, pod)
	if lacks != nil {
		if err := r.lack(ctx, pod, lacks); err != nil {
			return err
		}
		if !r.hasAssignment(pod) {
			return r.patchConditions(ctx, pod, false, requestsGranted(pod, lacks))
		}
	}
	got, err := r.allocate(ctx, pod, addresses.own)
	if err != nil {
		return r.wait(ctx, pod, err)
	}
	got = r.adopt(ctx, pod, got)
	r.setLacking(name, "")
	want := r.facts(pod, &nn, got)
	has := given{got.Floating, r.hold(pod, addresses.translated)}
	if err := r.addFloating(ctx, &want, &nn, has); err != nil {
		return err
	}
	want.EgressIP, want.Selected = by.egressIP, by.selectors
	r.addNextHops(&want, &nn, by)
	if want.Networks, err = r.networksOf(ctx, pod); err != nil {
		return err
	}
	ports, err := r.addHostPorts(ctx, pod, &want)
	if err != nil {
		return err
	}
	applied := r.Database.Apply(ctx, topology.PodUnit(want))
	if ovndb.IgnorePending(applied) == nil {
		r.holdOnly(ownerOf(pod), has)
	}
	r.restored.made(ownerOf(pod), pod.Spec.NodeName, nn.Status.Chassis)
	reportErr := r.report(ctx, pod, applied, cmp.Or(lacks, unreadable(pod)), ports)
	if applied != nil && !ovndb.IsPending(applied) {
		var rejected *ovndb.RejectedError
		if errors.As(applied, &rejected) { // when the process ends, the error is not the pod's
			r.Events.Eventf(pod, nil, corev1.EventTypeWarning, "FailedPortCreation", "CreatePort", "%v", applied)
		}
		return errors.Join(applied, reportErr)
	}
	return errors.Join(reportErr, r.record(ctx, pod, &nn, got))
}

// outlives reports whether the pod has a port whose address went with the pod's node, which has returned since. That
// port may block another pod that has received the address, while that pod's port blocks this one. Both would wait
// for ever.
func (r *Reconciler) outlives(pod *corev1.Pod) bool {
	awaits := r.Addresses.Awaits(ownerOf(pod)) // first, because an awaited claim may succeed now
	_, _, has := r.Addresses.Get(ownerOf(pod))
	return !has && !awaits && r.Database.Wanted(topology.PodKey(pod.Namespace, pod.Name))
}

// park leaves a pod whose node has no network, or no agent, yet. Their arrival enqueues the pod again. A port whose
// address went with its node must not return with a node of that name, because the address may belong to another node
// then. Without an address, the rest of the pod's unit is removed too: its balancers outlive a port that went with
// the node's switch.
func (r *Reconciler) park(ctx context.Context, pod *corev1.Pod, by selection) error {
	name, owner := client.ObjectKeyFromObject(pod), ownerOf(pod)
	awaits := r.Addresses.Awaits(owner) // first, because an awaited claim may succeed now
	on, got, known := r.Addresses.Get(owner)
	// A static pod has the UID of its file. An assignment of this UID on another node belongs to an earlier pod.
	if !known && !awaits || known && on != pod.Spec.NodeName {
		r.restored.forget(owner)
		return r.release(ctx, name, "")
	}
	had, ok := r.restored.of(owner)
	if !ok {
		// If a unit was applied for the pod, it has the pod's current selection and keeps its chassis. Otherwise the
		// pod has no unit.
		if had.Chassis, ok = r.restored.chassisOf(pod.Spec.NodeName); !ok || !known {
			return nil
		}
	}
	if !known {
		got = alloc.Assignment{MAC: had.MAC, Slot: had.Slot, Floating: had.Floating}
		for _, address := range had.Addresses {
			got.Addresses = append(got.Addresses, netip.PrefixFrom(address, address.BitLen()))
		}
		if got.MAC == nil {
			got.MAC = ipam.MAC(had.Addresses)
		}
	}
	switch still, err := r.stillHas(ctx, pod, got); {
	case err != nil:
		return err
	case !still:
		r.restored.forget(owner)
		return r.release(ctx, name, "")
	}
	// The port stays unchanged, including its groups, which remove unwanted references by themselves.
	want := r.facts(pod, &networkv1alpha1.NodeNetwork{Status: networkv1alpha1.NodeNetworkStatus{Chassis: had.Chassis}}, got)
	want.EgressIP, want.Selected = by.egressIP, by.selectors
	nn := networkv1alpha1.NodeNetwork{}
	err := r.Client.Get(ctx, types.NamespacedName{Name: pod.Spec.NodeName}, &nn, client.UnsafeDisableDeepCopy)
	if client.IgnoreNotFound(err) != nil {
		return err
	}
	has := given{got.Floating, r.hold(pod, r.held(pod, got).translated)}
	if err := r.addFloating(ctx, &want, &nn, has); err != nil {
		return err
	}
	r.addNextHops(&want, &nn, by)
	if want.Networks, err = r.networksOf(ctx, pod); err != nil {
		return err
	}
	if _, err = r.addHostPorts(ctx, pod, &want); err != nil {
		return err
	}
	if err := ovndb.IgnorePending(r.Database.Apply(ctx, topology.PodUnit(want))); err != nil {
		return err
	}
	r.holdOnly(owner, has)
	return nil
}

// allocate gives a pod addresses of its node, besides its floating addresses.
func (r *Reconciler) allocate(ctx context.Context, pod *corev1.Pod, own []netip.Addr) (alloc.Assignment, error) {
	name, owner := client.ObjectKeyFromObject(pod), ownerOf(pod)
	_, before, had := r.Addresses.Get(owner)
	if had && !sameAddresses(before.Floating, own) {
		if err := r.release(ctx, name, ""); err != nil {
			return alloc.Assignment{}, err
		}
		had = false
	}
	request, err := requestOf(pod)
	request.Floating = own
	if err != nil && !had {
		return alloc.Assignment{}, err
	}
	got, err := r.Addresses.Allocate(pod.Spec.NodeName, owner, request)
	if err != nil {
		r.holders.wait(pod.Spec.NodeName, name)
		for _, address := range own {
			r.holders.wait(waitsForPort(address), name)
		}
		// An address that was freed before the pod was recorded as waiting enqueued no pod.
		got, err = r.Addresses.Allocate(pod.Spec.NodeName, owner, request)
	}
	if err != nil {
		r.enlarge(pod.Spec.NodeName, err)
		return got, err
	}
	r.holders.add(name, owner)
	if !had {
		r.counted()
	}
	return got, nil
}

// sameAddresses reports whether two lists have the same addresses, in any order.
func sameAddresses(a, b []netip.Addr) bool {
	return len(a) == len(b) && !slices.ContainsFunc(a, func(address netip.Addr) bool { return !slices.Contains(b, address) })
}

// ownerOf returns the pod's owner in the allocator. It contains the UID, so that another pod of the same name is
// another owner.
func ownerOf(pod *corev1.Pod) string {
	return owner(pod.Namespace, pod.Name, networkv1alpha1.InterfaceUID(pod))
}

func owner(namespace, name, uid string) string { return alloc.OwnerOf(namespace, name, uid) }

// NameOf returns the pod of an owner in the allocator.
func NameOf(owner string) types.NamespacedName {
	namespace, rest, _ := strings.Cut(owner, "/")
	name, _, _ := strings.Cut(rest, "/")
	return types.NamespacedName{Namespace: namespace, Name: name}
}

func (r *Reconciler) facts(pod *corev1.Pod, nn *networkv1alpha1.NodeNetwork, got alloc.Assignment) topology.Pod {
	return topology.Pod{
		Namespace: pod.Namespace, Name: pod.Name, UID: networkv1alpha1.InterfaceUID(pod), Node: pod.Spec.NodeName, Chassis: nn.Status.Chassis,
		Addresses: ipam.Addresses(got.Addresses), MAC: got.MAC, Slot: got.Slot, Bandwidth: r.bandwidth(pod),
	}
}

// bandwidth reads the limits of a pod that has its address. A pod whose limits have become unreadable has no limit,
// because its previous limits are not stored.
func (r *Reconciler) bandwidth(pod *corev1.Pod) networkv1alpha1.Bandwidth {
	limits, err := networkv1alpha1.ParseBandwidth(pod.Annotations)
	if err != nil {
		r.Events.Eventf(pod, nil, corev1.EventTypeWarning, "InvalidBandwidth", "LimitBandwidth",
			"the limits are invalid, so that the pod's traffic is not limited: %v", err)
	}
	return limits
}
