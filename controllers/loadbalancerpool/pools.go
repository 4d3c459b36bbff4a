package loadbalancerpool

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/controllers/kind"
	"github.com/weft-network/weft/pkg/addresses/floating/claim"
	"github.com/weft-network/weft/pkg/addresses/lbpool"
	"github.com/weft-network/weft/pkg/bgp"
	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/ovn/nbdb"
	"github.com/weft-network/weft/pkg/ovndb"
	"github.com/weft-network/weft/pkg/process/trigger"
	"github.com/weft-network/weft/pkg/topology"
	"github.com/weft-network/weft/pkg/unit"
)

// Database is the part of the engine that the reconciler uses.
type Database interface {
	Apply(ctx context.Context, u unit.Unit) error
	Connected() bool
	// Has reports whether the server has an optional column.
	Has(table, column string) bool
}

// Pools reconciles LoadBalancerPools. It refuses a pool whose addresses are in other use, and chooses one node to answer for
// each address that a Service has.
type Pools struct {
	Client   client.Client
	Database Database
	Events   events.EventRecorder
	Triggers *trigger.Set
	// Reachable reports whether a node's agent responds. If it is nil, every node counts as reachable.
	Reachable func(node string) bool
	Zone      kind.Zone
	// Announcing, if set, receives how many addresses of a pool are used, free, and without a node.
	Announcing func(pool string, used, free, unannounced int64)
	// Floating has the addresses of NAT pools that are in use.
	Floating *claim.Claimer
}

// All is the request for every LoadBalancerPool. The caller need not list the objects: the queue waits until they are
// cached.
var All = types.NamespacedName{}

// Reconcile implements reconcile.Reconciler.
func (r *Pools) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	if req.NamespacedName == All {
		for _, request := range r.every(ctx, nil) {
			r.Triggers.Enqueue(topology.KindLoadBalancerPool, request.NamespacedName)
		}
		return ctrl.Result{}, nil
	}
	var pool networkv1alpha1.LoadBalancerPool
	if err := r.Client.Get(ctx, req.NamespacedName, &pool); apierrors.IsNotFound(err) {
		if r.Announcing != nil {
			r.Announcing(req.Name, 0, 0, 0)
		}
		return ctrl.Result{}, ovndb.IgnorePending(r.Database.Apply(ctx, unit.Unit{Key: topology.LoadBalancerPoolKey(req.Name)}))
	} else if err != nil {
		return ctrl.Result{}, err
	}
	if !r.Database.Connected() {
		// the status must not promise what cannot be written; a connection enqueues the pool again
		return ctrl.Result{}, kind.ErrLater
	}
	if r.Zone.Follows() {
		return ctrl.Result{}, r.follow(ctx, &pool)
	}
	read, invalid := lbpool.ParsePool(&pool)
	d := decision{pool: read}
	if invalid != nil {
		d.reason, d.trouble = networkv1alpha1.ReasonInvalidSpec, invalid.Error()
	} else if taken, err := r.taken(ctx, &pool, read); err != nil {
		return ctrl.Result{}, err
	} else if d.trouble = read.Overlap(taken); d.trouble != "" {
		d.reason = networkv1alpha1.ReasonRangeOverlaps
	}
	if err := r.announce(ctx, &pool, &d); err != nil {
		return ctrl.Result{}, err
	}
	if err := r.findForeign(ctx, &d); err != nil {
		return ctrl.Result{}, err
	}
	own, err := r.own(ctx, d.announced)
	if err != nil {
		return ctrl.Result{}, err
	}
	applied := r.Database.Apply(ctx, topology.LoadBalancerPoolUnit(
		facts.LoadBalancerPool{Name: pool.Name, Announced: own, Former: facts.AnnouncedBy(&pool)}))
	return ctrl.Result{}, r.report(ctx, &pool, d, applied)
}

// decision is the result of reconciling a pool.
type decision struct {
	pool lbpool.Pool
	// reason and trouble say why the pool gives no new addresses. They are empty for a pool in force.
	reason, trouble string
	// announced has the node of each address, sorted; unannounced why an address has none.
	announced   []facts.AnnouncedAddress
	unannounced []unannounced
	// unadvertised means that no node answers for the pool, and that no BGPAdvertisement selects it.
	unadvertised bool
	// services has the Services of each address.
	services map[netip.Addr][]*corev1.Service
	// foreign names the addresses that foreign hosts have, and their MACs.
	foreign []string
	// kept names the addresses that the pool does not give any more, and their Services.
	kept []string
	// nodeSelector is the last selector that selected a node; formerNodes means that the pool goes on with it.
	nodeSelector *metav1.LabelSelector
	formerNodes  bool
}

// unannounced is an address that no node answers for.
type unannounced struct {
	address         netip.Addr
	reason, message string
}

// announce chooses the node that answers for each address that a Service has from the pool.
func (r *Pools) announce(ctx context.Context, pool *networkv1alpha1.LoadBalancerPool, d *decision) error {
	if err := errors.Join(r.keepNodes(ctx, pool, d), r.findServices(ctx, pool, d)); err != nil {
		return err
	}
	if !d.pool.OnSegment {
		return r.findAdvertisement(ctx, pool, d)
	}
	if len(d.services) == 0 {
		return nil
	}
	nodes, err := r.nodes(ctx, d.pool)
	if err != nil {
		return err
	}
	current := map[netip.Addr]string{}
	for _, a := range pool.Status.Announcements {
		if address, err := a.Address.Addr(); err == nil {
			current[address] = a.Node
		}
	}
	for _, address := range slices.SortedFunc(maps.Keys(d.services), netip.Addr.Compare) {
		local, err := r.localNodes(ctx, d.services[address])
		if err != nil {
			return err
		}
		if len(d.announced) == maxAnnouncements {
			d.unannounced = append(d.unannounced, unannounced{address, networkv1alpha1.ReasonNoEligibleNode,
				fmt.Sprintf("nodes answer for %d addresses of a pool at most", maxAnnouncements)})
			continue
		}
		node, reason, message := lbpool.Speaker(address, nodes, local, current[address])
		if node == "" {
			d.unannounced = append(d.unannounced, unannounced{address, reason, message})
			continue
		}
		byHost := slices.ContainsFunc(nodes, func(n lbpool.Node) bool { return n.Name == node && n.ByHost })
		if !byHost && !r.Database.Has(nbdb.NATTable, "match") {
			d.unannounced = append(d.unannounced, unannounced{address, networkv1alpha1.ReasonDatabaseSchemaTooOld,
				"the northbound database's server lacks NAT.match: it is older than OVN 24.09"})
			continue
		}
		d.announced = append(d.announced, facts.AnnouncedAddress{Address: address, Node: node, ByHost: byHost})
	}
	return nil
}

// findForeign finds the addresses that no Service gets, because a foreign host has them.
func (r *Pools) findForeign(ctx context.Context, d *decision) error {
	if !d.pool.OnSegment {
		return nil
	}
	nodes, err := kind.Probes(ctx, r.Client)
	if err != nil {
		return err
	}
	foreign := nodes.Foreign()
	for _, a := range slices.SortedFunc(maps.Keys(foreign), netip.Addr.Compare) {
		if d.pool.Contains(a) && len(d.services[a]) == 0 {
			d.foreign = append(d.foreign, fmt.Sprintf("%s (MAC %s)", a, foreign[a]))
		}
	}
	return nil
}

// findAdvertisement finds out whether a BGPAdvertisement selects a pool that no node answers for.
func (r *Pools) findAdvertisement(ctx context.Context, pool *networkv1alpha1.LoadBalancerPool, d *decision) error {
	var list networkv1alpha1.BGPAdvertisementList
	if err := r.Client.List(ctx, &list); err != nil {
		return err
	}
	d.unadvertised = !slices.ContainsFunc(list.Items, func(a networkv1alpha1.BGPAdvertisement) bool { return bgp.Selects(&a, pool) })
	return nil
}

// findServices finds the Services that have addresses of the pool. Another controller's Services do not count, nor does
// an address of another pool, because a node answers for it because of that pool.
func (r *Pools) findServices(ctx context.Context, pool *networkv1alpha1.LoadBalancerPool, d *decision) error {
	var list corev1.ServiceList
	var pools networkv1alpha1.LoadBalancerPoolList
	if err := errors.Join(r.Client.List(ctx, &list),
		r.Client.List(ctx, &pools)); err != nil {
		return err
	}
	slices.SortFunc(list.Items, func(a, b corev1.Service) int { return byAge(&a, &b) }) // events and endpoints are the same each time
	d.services = map[netip.Addr][]*corev1.Service{}
	all, of := lbpool.ByAge(pools.Items)
	for i := range list.Items {
		s := &list.Items[i]
		if !lbpool.Wants(s) || !lbpool.IsOurs(s) {
			continue
		}
		for _, a := range lbpool.AddressesOf(s) {
			if at := all.Owner(a); at < 0 || of[at].Name != pool.Name {
				continue
			}
			d.services[a] = append(d.services[a], s)
			gives, err := r.gives(ctx, d.pool, a, s)
			if err != nil {
				return err
			}
			if !gives {
				d.kept = append(d.kept, fmt.Sprintf("%s of Service %s/%s", a, s.Namespace, s.Name))
			}
		}
	}
	return nil
}

// gives reports whether a pool would give an address to a Service that has it.
func (r *Pools) gives(ctx context.Context, pool lbpool.Pool, a netip.Addr, s *corev1.Service) (bool, error) {
	namespace, err := kind.NamespaceLabels(ctx, r.Client, s.Namespace)
	if err != nil {
		return false, err
	}
	request, _ := lbpool.ParseRequest(s, namespace) // the Service's own condition reports the error
	return pool.Contains(a) && pool.Serves(request), nil
}
