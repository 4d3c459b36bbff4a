package floatingip

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/controllers/kind"
	"github.com/weft-network/weft/pkg/addresses/floating"
	"github.com/weft-network/weft/pkg/addresses/floating/claim"
	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/health"
	"github.com/weft-network/weft/pkg/process/trigger"
	"github.com/weft-network/weft/pkg/topology"
)

// Pools reconciles IPPools: they are in force while their ranges overlap nothing else.
type Pools struct {
	Client   client.Client
	Floating *claim.Claimer
	Events   events.EventRecorder
	Triggers *trigger.Set
	// Freed publishes a pool whose addresses may suffice now for pods that wait.
	Freed *kind.Topic[string]
	// AtPorts returns the floating addresses that ports of pods have, on a Network or on the pod network (""), once they are restored.
	AtPorts func(ctx context.Context, network string) ([]netip.Addr, error)
	// CountDelay is how long the counts of a status may lag.
	CountDelay time.Duration
	// workloads watches workloads. Without IPPools, nothing does.
	workloads func() error
}

// Reconcile implements reconcile.Reconciler.
func (r *Pools) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	if err := r.Floating.Load(ctx); err != nil {
		return ctrl.Result{}, err
	}
	var pool networkv1alpha1.IPPool
	err := r.Client.Get(ctx, req.NamespacedName, &pool)
	if apierrors.IsNotFound(err) {
		if r.Floating.Book.RemovePool(req.Name) { // its FloatingIPs enqueue it again
			r.changed(req.Name)
			r.enqueuePods(req.Name)
		}
		return ctrl.Result{}, nil
	}
	if err != nil {
		return ctrl.Result{}, err
	}
	if err := r.workloads(); err != nil {
		return ctrl.Result{}, err
	}
	read, err := floating.ParsePool(&pool)
	if err != nil {
		return ctrl.Result{}, r.refuse(ctx, &pool, read, &floating.RefusedError{Reason: networkv1alpha1.ReasonInvalidSpec, Message: err.Error()})
	}
	taken, err := r.check(ctx, &pool, read)
	if err != nil {
		var refused *floating.RefusedError
		if errors.As(err, &refused) {
			return ctrl.Result{}, r.refuse(ctx, &pool, read, refused)
		}
		return ctrl.Result{}, err
	}
	skipped := read.Skip(taken)
	r.set(read.Without(skipped), "")
	if err := r.keepSize(ctx, read.Without(skipped)); err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{}, r.report(ctx, &pool, read.Texts(), skipped, networkv1alpha1.ReasonAsExpected,
		"pods can get addresses of the pool"+describe(read, taken)+r.Floating.Book.ReservedOutside(read))
}

// refuse leaves a pool that gives no new addresses. Pods keep the addresses that they have, and the former ranges stay in force.
func (r *Pools) refuse(ctx context.Context, pool *networkv1alpha1.IPPool, read floating.Pool, why *floating.RefusedError) error {
	r.set(read, why.Message)
	inForce := floating.Ranges(pool)
	if len(inForce) == 0 { // an older operator accepted it, or the status was lost
		inForce = r.Floating.Book.RangesInUse(pool.Name)
	}
	return r.report(ctx, pool, inForce, nil, why.Reason, why.Message)
}

// set records the pool.
func (r *Pools) set(read floating.Pool, refused string) {
	_, _, known := r.Floating.Book.Pool(read.Name)
	if r.Floating.Book.SetPool(read, refused) {
		r.changed(read.Name)
	}
	if !known {
		r.enqueuePods(read.Name)
	}
}

// enqueuePods enqueues the pods that have addresses of a pool that was created or deleted, because translations exist
// only while the pool does.
func (r *Pools) enqueuePods(pool string) {
	for _, f := range r.Floating.Book.InPool(pool) {
		if h := f.Spec.Holder; h != nil && h.PodUID != "" {
			r.Triggers.Enqueue(topology.KindPod, types.NamespacedName{Namespace: h.Namespace, Name: h.Pod})
		}
	}
}

// changed enqueues the pool's FloatingIPs, and publishes that pods may get an address now.
func (r *Pools) changed(pool string) {
	for _, f := range r.Floating.Book.InPool(pool) {
		r.Triggers.Enqueue(KindFloatingIP, types.NamespacedName{Name: f.Name})
	}
	r.Freed.Publish(pool)
}

// check compares the pool with everything else that has addresses. It returns what an Underlay pool skips.
func (r *Pools) check(
	ctx context.Context, pool *networkv1alpha1.IPPool, read floating.Pool,
) (skipped []floating.Taken, err error) {
	var cn networkv1alpha1.ClusterNetwork
	err = r.Client.Get(ctx, types.NamespacedName{Name: networkv1alpha1.ClusterNetworkName}, &cn)
	if client.IgnoreNotFound(err) != nil {
		return nil, err
	}
	plan, err := facts.ParseClusterNetwork(&cn)
	if err != nil {
		plan = facts.Plan{} // its own status says so
	}
	taken, err := r.otherPools(ctx, pool)
	if err != nil {
		return nil, err
	}
	var within []netip.Prefix
	where := "an entry of ClusterNetwork's spec.clusterNetwork"
	switch read.Location {
	case networkv1alpha1.LocationOverlay:
		for _, cluster := range plan.Clusters {
			within = append(within, cluster.CIDR)
		}
		nodes, err := r.nodeSubnets(ctx)
		if err != nil {
			return nil, err
		}
		taken = append(taken, nodes...)
	case networkv1alpha1.LocationUnderlay:
		network, err := r.networkOf(ctx, read.Network)
		if err != nil {
			return nil, err
		}
		for _, subnet := range network.Subnets {
			within = append(within, subnet.CIDR)
		}
		where = "the subnets of Network " + read.Network
		if skipped, err = r.reserved(ctx, network, read); err != nil {
			return nil, err
		}
	default:
		outside, err := r.outside(ctx, pool, read)
		if err != nil {
			return nil, err
		}
		taken = slices.Concat(taken, networksOf(plan), outside)
	}
	if err := errors.Join(read.CheckFamilies(plan.PodNetworks()), read.Check(within, where, taken)); err != nil {
		return nil, err
	}
	return skipped, r.Floating.Book.Outside(read)
}

// outside returns the addresses outside the cluster that a NAT pool must not have.
func (r *Pools) outside(ctx context.Context, pool *networkv1alpha1.IPPool, read floating.Pool) ([]floating.Taken, error) {
	hosts, err := r.hosts(ctx, read)
	if err != nil {
		return nil, err
	}
	egress, err := r.egressIPs(ctx, pool)
	if err != nil {
		return nil, err
	}
	services, err := r.services(ctx, read)
	if err != nil {
		return nil, err
	}
	balancers, err := r.loadBalancerPools(ctx, pool)
	return slices.Concat(hosts, egress, services, balancers), err
}

// otherPools returns the ranges of the pools that were created before, at whatever location, because a FloatingIP is
// named by its address.
func (r *Pools) otherPools(ctx context.Context, pool *networkv1alpha1.IPPool) (taken []floating.Taken, err error) {
	var all networkv1alpha1.IPPoolList
	if err := r.Client.List(ctx, &all); err != nil {
		return nil, err
	}
	for i := range all.Items {
		other := &all.Items[i]
		if other.Name == pool.Name || !floating.IsBefore(other, pool) {
			continue
		}
		read, err := floating.ParsePool(other)
		if err != nil {
			continue // its own status says so
		}
		for _, s := range read.Segments {
			taken = append(taken, floating.Taken{AddressRange: s.AddressRange, Of: "IPPool " + other.Name})
		}
	}
	return taken, nil
}

func (r *Pools) nodeSubnets(ctx context.Context) (taken []floating.Taken, err error) {
	var nodes networkv1alpha1.NodeNetworkList
	if err := r.Client.List(ctx, &nodes); err != nil {
		return nil, err
	}
	for i := range nodes.Items {
		for _, subnet := range nodes.Items[i].Spec.PodSubnets {
			if prefix, err := subnet.Prefix(); err == nil {
				taken = append(taken, floating.Taken{AddressRange: floating.Of(prefix), Of: "the pod subnet of node " + nodes.Items[i].Name})
			}
		}
	}
	return taken, nil
}

// networksOf returns the networks of the cluster, which no NAT pool may overlap.
func networksOf(plan facts.Plan) (taken []floating.Taken) {
	for _, cluster := range plan.Clusters {
		taken = append(taken, floating.Taken{AddressRange: floating.Of(cluster.CIDR), Of: "ClusterNetwork's spec.clusterNetwork"})
	}
	for _, service := range plan.Services {
		taken = append(taken, floating.Taken{AddressRange: floating.Of(service), Of: "ClusterNetwork's spec.serviceNetwork"})
	}
	for _, join := range plan.Join {
		taken = append(taken, floating.Taken{AddressRange: floating.Of(join), Of: "ClusterNetwork's spec.joinSubnet"})
	}
	return taken
}

// left enqueues the pool of an address that no port has any more, because its FloatingIP may be surplus.
func (r *Pools) left(address netip.Addr) {
	if f := r.Floating.Book.Get(address); f != nil && f.Spec.Holder == nil {
		r.Triggers.EnqueueAfter(KindIPPool, types.NamespacedName{Name: f.Spec.Pool}, r.CountDelay)
	}
}

// keepSize creates the FloatingIPs that spec.size requires, and deletes FloatingIPs outside of the ranges that nobody
// has or reserved, and that no port has.
func (r *Pools) keepSize(ctx context.Context, read floating.Pool) error {
	for _, address := range r.Floating.Book.Missing(read) {
		f := &networkv1alpha1.FloatingIP{ObjectMeta: metav1.ObjectMeta{Name: networkv1alpha1.FloatingIPName(address),
			Labels: map[string]string{networkv1alpha1.PoolLabel: read.Name, networkv1alpha1.PoolNetworkLabel: read.Network}}}
		f.Spec.Address, f.Spec.Pool = networkv1alpha1.EgressAddress(address.String()), read.Name
		if err := r.Client.Create(ctx, f); err != nil && !apierrors.IsAlreadyExists(err) {
			return err
		} else if err == nil {
			r.Floating.Book.Observe(f)
		}
	}
	surplus := r.Floating.Book.Surplus(read)
	if len(surplus) == 0 {
		return nil
	}
	held, err := r.AtPorts(ctx, read.Network)
	if err != nil {
		return err
	}
	atPorts := sets.New(held...)
	for _, f := range surplus {
		// A person may have removed the holder of a running pod's address. The pod gets it again by its FloatingIP.
		if address, err := netip.ParseAddr(string(f.Spec.Address)); err != nil || atPorts.Has(address) {
			continue
		}
		precondition := client.Preconditions{UID: &f.UID, ResourceVersion: &f.ResourceVersion}
		if err := r.Client.Delete(ctx, f, precondition); client.IgnoreNotFound(err) != nil {
			return err
		}
	}
	return nil
}

// report writes the status if it differs. inForce are the ranges in force.
func (r *Pools) report(
	ctx context.Context, pool *networkv1alpha1.IPPool, inForce []string, skipped []networkv1alpha1.AddressRange, reason, message string,
) error {
	before := kind.Detach(pool)
	pool.Status.Ranges, pool.Status.Skipped = inForce, nil
	for _, s := range skipped {
		pool.Status.Skipped = append(pool.Status.Skipped, s.String())
	}
	ready := metav1.Condition{Type: networkv1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: reason,
		Message: health.Cut(message), ObservedGeneration: pool.Generation}
	if reason != networkv1alpha1.ReasonAsExpected {
		ready.Status = metav1.ConditionFalse
	}
	meta.SetStatusCondition(&pool.Status.Conditions, ready)
	counts := r.Floating.Book.Counts(pool.Name)
	pool.Status.Total, pool.Status.Used, pool.Status.Kept = counts.Total, counts.Used, counts.Kept
	if equality.Semantic.DeepEqual(before.Status, pool.Status) {
		return nil
	}
	// With the resource version, a decision that does not know the ranges in force yet is not written, but made again.
	if err := kind.WriteStatus(ctx, r.Client, before, pool); err != nil {
		return client.IgnoreNotFound(err)
	}
	had := meta.FindStatusCondition(before.Status.Conditions, networkv1alpha1.ConditionReady)
	if ready.Status != metav1.ConditionTrue && (had == nil || had.Message != ready.Message) {
		r.Events.Eventf(pool, nil, corev1.EventTypeWarning, reason, "ReconcileIPPool", "%s", ready.Message)
	}
	return nil
}
