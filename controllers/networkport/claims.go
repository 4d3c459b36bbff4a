package networkport

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"

	ipamclaimsv1alpha1 "github.com/k8snetworkplumbingwg/ipamclaims/pkg/crd/ipamclaims/v1alpha1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weft-network/weft/controllers/kind"
	"github.com/weft-network/weft/pkg/ipam/alloc"
	"github.com/weft-network/weft/pkg/networks"
	"github.com/weft-network/weft/pkg/process/trigger"
	"github.com/weft-network/weft/pkg/topology"
)

// conditionAllocated is the condition of an IPAMClaim that has addresses.
const conditionAllocated = "IPsAllocated"

// claimPrefix begins the names of reservations.
const claimPrefix = "IPAMClaim "

// reservation is the name under which a network's allocator keeps the addresses of an IPAMClaim. It holds the claim's
// UID, so that a claim recreated under the same name gets addresses of its own.
type reservation struct{ network, name string }

// claimNamed returns the claim of a reservation's name.
func claimNamed(name string) types.NamespacedName {
	namespace, rest, _ := strings.Cut(strings.TrimPrefix(name, claimPrefix), "/")
	claim, _, _ := strings.Cut(rest, " ")
	return types.NamespacedName{Namespace: namespace, Name: claim}
}

func reservationOf(claim *ipamclaimsv1alpha1.IPAMClaim) reservation {
	return reservation{claim.Spec.Network, claimPrefix + claim.Namespace + "/" + claim.Name + " " + string(claim.UID)}
}

// claims remembers the reservations of IPAMClaims. The zero value is empty.
type claims struct {
	// mu is held from the reading of a claim to the change of its reservation, so that a deleted claim gets none.
	mu     sync.Mutex
	byName map[types.NamespacedName]reservation
}

func (c *claims) copyTo(to *claims) {
	c.mu.Lock()
	defer c.mu.Unlock()
	to.byName = maps.Clone(c.byName)
}

// on returns the claims of a Network in a namespace.
func (c *claims) on(network, namespace string) (found []types.NamespacedName) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for name, of := range c.byName {
		if of.network == network && name.Namespace == namespace {
			found = append(found, name)
		}
	}
	return found
}

// Claims reconciles IPAMClaims: their addresses stay reserved while they exist.
type Claims struct{ *Reconciler }

// Reconcile implements reconcile.Reconciler.
func (r *Claims) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	if err := r.restore(ctx); err != nil {
		return ctrl.Result{}, err
	}
	claim, err := r.readClaim(ctx, req.NamespacedName)
	if err != nil || claim == nil {
		return ctrl.Result{}, err
	}
	_, err = r.recordClaim(ctx, claim)
	return ctrl.Result{}, err
}

// readClaim reads an IPAMClaim and reserves its addresses. It returns nil for a claim that does not exist, whose
// reservation ends.
func (r *Reconciler) readClaim(ctx context.Context, name types.NamespacedName) (*ipamclaimsv1alpha1.IPAMClaim, error) {
	r.claims.mu.Lock()
	defer r.claims.mu.Unlock()
	claim := &ipamclaimsv1alpha1.IPAMClaim{}
	err := r.Client.Get(ctx, name, claim)
	if client.IgnoreNotFound(err) != nil {
		return nil, err
	}
	former, had := r.claims.byName[name]
	if had && (err != nil || former != reservationOf(claim)) {
		r.Addresses.Of(former.network).Unreserve(former.name)
		delete(r.claims.byName, name)
		r.wake(kind.Awaited{Network: former.network})
	}
	if err != nil {
		return nil, nil
	}
	r.reserve(claim)
	return claim, nil
}

// reserve reserves the addresses that a claim's status has. The status may be behind the reservation, never before it.
func (r *Reconciler) reserve(claim *ipamclaimsv1alpha1.IPAMClaim) {
	of := reservationOf(claim)
	if r.claims.byName == nil {
		r.claims.byName = map[types.NamespacedName]reservation{}
	}
	r.claims.byName[client.ObjectKeyFromObject(claim)] = of
	addresses := r.Addresses.Of(of.network)
	if len(addresses.Reserved(of.name)) > 0 {
		return
	}
	if kept, err := addressesOf(claim); err == nil { // the request that names the claim reports the error
		addresses.Reserve(of.name, kept)
	}
}

// addressesOf returns the addresses of a claim's status.
func addressesOf(claim *ipamclaimsv1alpha1.IPAMClaim) (kept []netip.Addr, err error) {
	for _, text := range claim.Status.IPs {
		address, err := networks.ParseAddress(text)
		if err != nil {
			return nil, fmt.Errorf("status.ips: %w", err)
		}
		kept = append(kept, address.Addr())
	}
	return kept, nil
}

// restoreClaims reserves the addresses of all IPAMClaims, before the first address is given.
func (r *Reconciler) restoreClaims(ctx context.Context) error {
	var all ipamclaimsv1alpha1.IPAMClaimList
	if err := r.Client.List(ctx, &all); err != nil {
		return err
	}
	r.claims.mu.Lock()
	defer r.claims.mu.Unlock()
	for i := range all.Items {
		r.reserve(&all.Items[i])
	}
	return nil
}

// resolveClaim finds the IPAMClaim of an attempt that names one. A pod that has its addresses keeps them without the claim.
func (r *Reconciler) resolveClaim(ctx context.Context, pod types.NamespacedName, a *attempt) (err error) {
	if a.failed != nil || a.request.Element.IPAMClaimReference == "" {
		return nil
	}
	a.claim, err = r.claimOf(ctx, pod, a)
	if !isRefusal(err) {
		return err
	}
	if _, _, has := r.Addresses.Of(a.port.Network.Name).Get(a.owner); !has {
		a.failed = err
	}
	return nil
}

// claimOf returns the IPAMClaim that a request names. A claim that the request cannot have is a refusal.
func (r *Reconciler) claimOf(ctx context.Context, pod types.NamespacedName, a *attempt) (*ipamclaimsv1alpha1.IPAMClaim, error) {
	name := types.NamespacedName{Namespace: pod.Namespace, Name: a.request.Element.IPAMClaimReference}
	network := a.port.Network
	switch {
	case network.PerNode():
		return nil, refuse("ipam-claim-reference: the addresses of Network %s, which is Layer3, follow the pod's node", network.Name)
	case len(a.pools) == 0:
		return nil, refuse("ipam-claim-reference: Network %s has no addresses, its pods configure themselves", network.Name)
	}
	claim, err := r.readClaim(ctx, name)
	switch {
	case err != nil:
		return nil, err
	case claim == nil:
		return nil, refuse("IPAMClaim %s does not exist", name)
	case claim.Spec.Network != network.Name:
		return nil, refuse("IPAMClaim %s is for network %q, not for %q", name, claim.Spec.Network, network.Name)
	case claim.Spec.Interface != "" && claim.Spec.Interface != a.request.Interface:
		return nil, refuse("IPAMClaim %s is for interface %q, not for %q", name, claim.Spec.Interface, a.request.Interface)
	}
	if _, err := addressesOf(claim); err != nil {
		return nil, refuse("IPAMClaim %s: %w", name, err)
	}
	return claim, nil
}

// allocateClaimed is Allocate for an attempt that names an IPAMClaim.
func (r *Reconciler) allocateClaimed(pod types.NamespacedName, a *attempt, on string, request alloc.Request) (alloc.Assignment, error) {
	r.claims.mu.Lock()
	defer r.claims.mu.Unlock()
	of := reservationOf(a.claim)
	if r.claims.byName[client.ObjectKeyFromObject(a.claim)] != of { // its end enqueues the pod
		return alloc.Assignment{}, fmt.Errorf("IPAMClaim %s/%s does not exist any more", a.claim.Namespace, a.claim.Name)
	}
	if err := r.inUse(pod, a); err != nil {
		if _, got, has := r.Addresses.Of(of.network).Get(a.owner); has {
			return got, nil // they are of a claim that was deleted, and stay with the pod
		}
		return alloc.Assignment{}, err
	}
	request.Reservation = of.name
	got, err := r.Addresses.Of(of.network).Allocate(on, a.owner, request)
	if err != nil {
		err = fmt.Errorf("IPAMClaim %s/%s: %w", a.claim.Namespace, a.claim.Name, err)
	}
	return got, err
}

// inUse returns an error if another attachment has the addresses of the claim that an attempt names.
func (r *Reconciler) inUse(pod types.NamespacedName, a *attempt) error {
	user := r.Addresses.Of(a.port.Network.Name).UserOf(reservationOf(a.claim).name)
	if user == "" || user == a.owner {
		return nil
	}
	return fmt.Errorf("IPAMClaim %s/%s is in use by pod %s: pod %s gets its addresses when that is gone",
		a.claim.Namespace, a.claim.Name, userName(user), pod)
}

// recordClaim writes what the allocator keeps for a claim into its status, if it differs. A claim that never had
// addresses stays as it is. recorded is false if the cache is behind the claim, which is enqueued again.
func (r *Reconciler) recordClaim(ctx context.Context, claim *ipamclaimsv1alpha1.IPAMClaim) (recorded bool, err error) {
	of := reservationOf(claim)
	addresses := r.Addresses.Of(of.network)
	kept := addresses.Reserved(of.name)
	if len(kept) == 0 {
		return true, nil
	}
	before := kind.Detach(claim)
	if had, err := addressesOf(claim); err != nil || !slices.Equal(had, kept) {
		claim.Status.IPs = nil
		for _, address := range kept {
			claim.Status.IPs = append(claim.Status.IPs, r.withLength(of.network, address))
		}
	}
	if pod := addresses.UserOf(of.name).Pod().Name; pod != "" {
		claim.Status.OwnerPod = &ipamclaimsv1alpha1.OwnerPod{Name: pod}
	} else if !r.mayUse(claim) {
		claim.Status.OwnerPod = nil
	}
	meta.SetStatusCondition(&claim.Status.Conditions, metav1.Condition{Type: conditionAllocated, Status: metav1.ConditionTrue,
		Reason: "SuccessfulAllocation", Message: "the addresses are kept while the claim exists", ObservedGeneration: claim.Generation})
	if equality.Semantic.DeepEqual(before.Status, claim.Status) {
		return true, nil
	}
	// The resource version makes the patch fail on a claim that was recreated under this name.
	err = kind.WriteStatus(ctx, r.Client, before, claim)
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		r.Triggers.EnqueueAfter(topology.KindIPAMClaim, client.ObjectKeyFromObject(claim), trigger.FirstRetry)
		return false, nil
	}
	return err == nil, err
}

// mayUse reports whether the pod in a claim's status may have its addresses, although the allocator does not know it: the addresses of a
// port on a Network that was invalid at the start of the process are not restored, and the port stays.
func (r *Reconciler) mayUse(claim *ipamclaimsv1alpha1.IPAMClaim) bool {
	if claim.Status.OwnerPod == nil {
		return false
	}
	pod, addresses := types.NamespacedName{Namespace: claim.Namespace, Name: claim.Status.OwnerPod.Name}, r.Addresses.Of(claim.Spec.Network)
	return slices.ContainsFunc(r.holders.of(pod), func(have held) bool {
		_, _, restored := addresses.Get(have.owner)
		return have.network == claim.Spec.Network && !restored
	})
}

// withLength returns an address with the length of its subnet.
func (r *Reconciler) withLength(network string, address netip.Addr) string {
	addresses := r.Addresses.Of(network)
	for _, prefix := range addresses.InSubnets(addresses.NodeOf([]netip.Addr{address}), []netip.Addr{address}) {
		return prefix.String()
	}
	return address.String()
}
