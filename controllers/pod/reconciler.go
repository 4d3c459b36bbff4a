package pod

import (
	"context"
	"errors"
	"net/netip"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/controllers/kind"
	"github.com/weft-network/weft/pkg/addresses/floating/claim"
	"github.com/weft-network/weft/pkg/addresses/lookup"
	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/ipam/alloc"
	"github.com/weft-network/weft/pkg/ovn/nbdb"
	"github.com/weft-network/weft/pkg/ovndb"
	"github.com/weft-network/weft/pkg/process/trigger"
	"github.com/weft-network/weft/pkg/topology"
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
	state    state
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
	err := r.Client.Get(ctx, req.NamespacedName, &pod)
	if client.IgnoreNotFound(err) != nil {
		return ctrl.Result{}, err
	}
	if err != nil || !facts.WantsPort(&pod) {
		r.state.waiters.Leave(req.NamespacedName)
		r.setLacking(req.NamespacedName, "")
		r.Selectors.Gone(req.NamespacedName)
		return ctrl.Result{}, r.release(ctx, req.NamespacedName, "")
	}
	return ctrl.Result{}, r.ensure(ctx, read(&pod))
}

// ensure gives a pod what it requests, as far as it can.
func (r *Reconciler) ensure(ctx context.Context, p request) error {
	// Remove what an earlier pod of the name left, because this pod may have to wait for its node.
	if r.state.hasOthers(p.owner) {
		if err := r.release(ctx, p.name, p.owner); err != nil {
			return err
		}
	}
	s, err := r.surroundings(ctx, &p)
	if err != nil {
		return err
	}
	if s.place != here {
		r.setLacking(p.name, "")
	}
	d := decide(&p, &s)
	switch d.fate {
	case leave:
		return nil
	case release:
		r.state.unstore(p.owner)
		return r.release(ctx, p.name, "")
	case refuse:
		return errors.Join(r.release(ctx, p.name, ""), r.wait(ctx, &p, d.reason))
	}
	t, ok, err := r.take(ctx, &p, &s, d)
	if err != nil || !ok {
		return err
	}
	return r.apply(ctx, &p, &s, d, t)
}

// surroundings reads what the decision about a pod needs.
func (r *Reconciler) surroundings(ctx context.Context, p *request) (s surroundings, err error) {
	s.zone, s.node = r.Zone, &networkv1alpha1.NodeNetwork{}
	err = r.Client.Get(ctx, types.NamespacedName{Name: p.node}, s.node)
	if client.IgnoreNotFound(err) != nil {
		return s, err
	}
	switch {
	case err == nil && r.Zone.Elsewhere(s.node):
		s.place = elsewhere
	case err == nil && s.node.Status.Chassis != "":
		s.place = here
	}
	if s.by, err = r.selectedBy(ctx, p.pod); err != nil {
		return s, err
	}
	if s.networks, err = r.attached(ctx, p.networks); err != nil {
		return s, err
	}
	if s.place == here && len(s.node.Spec.TransitAddresses) > 0 {
		r.restorePod(ctx, p.pod) // if another zone's operator gave it addresses that could not be claimed when this one followed the pod
	}
	s.awaits = r.Addresses.Awaits(p.owner) // first, because an awaited claim may succeed now
	s.on, s.assigned, s.hasAddress = r.Addresses.Get(p.owner)
	s.stored, s.chassis = r.state.last(p.owner, p.node)
	s.applied = !s.hasAddress && r.Database.Wanted(topology.PodKey(p.name.Namespace, p.name.Name)) // otherwise it does not matter
	return s, nil
}

// attached returns the generation of the networks that a pod's node attaches by annotation; empty: none.
func (r *Reconciler) attached(ctx context.Context, generation string) (string, error) {
	if generation == "" {
		return "", nil
	}
	var cn networkv1alpha1.ClusterNetwork
	name := types.NamespacedName{Name: networkv1alpha1.ClusterNetworkName}
	err := r.Client.Get(ctx, name, &cn)
	if cn.Spec.AttachmentProvider == networkv1alpha1.AttachmentProviderMultus {
		return "", nil
	}
	return generation, client.IgnoreNotFound(err)
}

// release frees the port and the addresses of a name, except the address of the owner keep. The port is removed
// first, so that the address becomes free only when nothing responds at it.
func (r *Reconciler) release(ctx context.Context, name types.NamespacedName, keep alloc.Owner) error {
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
func (r *Reconciler) free(name types.NamespacedName, keep alloc.Owner) {
	for _, owner := range r.state.take(name, keep) {
		held := r.Addresses.Held(owner)
		if node, ok := r.Addresses.Release(owner); ok {
			r.counted()
			r.wakeNode(node)
			r.vacated(node)
			r.unrouted(node)
		}
		for _, address := range held {
			r.freedPort(address)
		}
	}
}

// wake enqueues the pods that wait for something.
func (r *Reconciler) wake(on kind.Awaited) {
	for _, waiting := range r.state.waiters.Wake(on) {
		r.Triggers.Enqueue(topology.KindPod, waiting)
	}
}

// wakeNode enqueues the pods that wait for an address of a node, and wakePool for one of an IPPool.
func (r *Reconciler) wakeNode(node string) { r.wake(kind.Awaited{Node: node}) }
func (r *Reconciler) wakePool(pool string) { r.wake(kind.Awaited{Pool: pool}) }

// counted enqueues the ClusterNetwork, whose status counts the addresses in use.
func (r *Reconciler) counted() {
	r.Triggers.EnqueueAfter(topology.KindNetwork, types.NamespacedName{Name: networkv1alpha1.ClusterNetworkName}, r.CountDelay)
}

// lost enqueues the pods whose addresses went with their node.
func (r *Reconciler) lost(owners []alloc.Owner) {
	for _, owner := range owners {
		r.Triggers.Enqueue(topology.KindPod, owner.Pod())
	}
	r.counted()
}

// setLacking records the node on which a pod finds no address, or "". It enqueues the nodes whose condition SubnetsFull
// depends on that. Outside zones there is no such condition, because the node's reconciler reads Addresses.
func (r *Reconciler) setLacking(pod types.NamespacedName, node string) {
	for _, changed := range r.state.setLacking(pod, node) {
		if !r.Zone.Follows() {
			break
		}
		r.Triggers.Enqueue(topology.KindNode, types.NamespacedName{Name: changed})
	}
}
