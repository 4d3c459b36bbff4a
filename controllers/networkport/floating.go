package networkport

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/controllers/kind"
	"github.com/weft-network/weft/pkg/addresses/floating"
	"github.com/weft-network/weft/pkg/addresses/floating/claim"
	"github.com/weft-network/weft/pkg/ipam/alloc"
)

// freed enqueues the pods that wait for an address of a pool.
func (r *Reconciler) freed(pool string) { r.wake(kind.Awaited{Pool: pool}) }

// resolveFloating takes the ranges of the Network's IPPools, and what they still have elsewhere, from an attempt. It gives the attempt
// the addresses of the pool that the pod requests, if the pool is on this Network.
func (r *Reconciler) resolveFloating(ctx context.Context, pod *corev1.Pod, a *attempt) error {
	if a.failed != nil || len(a.pools) == 0 || a.port.Network.PerNode() {
		return nil
	}
	var all networkv1alpha1.IPPoolList
	if err := r.Client.List(ctx, &all); err != nil {
		return err
	}
	for i := range all.Items {
		if all.Items[i].Spec.Network == a.port.Network.Name {
			a.excludePool(&all.Items[i])
		}
	}
	if err := r.Floating.Load(ctx); err != nil {
		return err
	}
	a.exclude(r.Floating.Book.Stranded(all.Items, a.port.Network.Name))
	request, ok, err := claim.Request(pod)
	if err != nil || !ok { // the pod's own reconciler says what is wrong
		return nil
	}
	pool, _, known := r.Floating.Book.Pool(request.Pool)
	if !known {
		// A pool that is created with the pod may become known after it. It may be on this Network, so that the pod waits. An attachment
		// that the pod has stays as it is.
		if _, _, has := r.Addresses.Of(a.port.Network.Name).Get(a.owner); has {
			return nil
		}
	} else if pool.Location != networkv1alpha1.LocationUnderlay || pool.Network != a.port.Network.Name {
		return nil
	}
	a.pool = request.Pool
	return r.claimFloating(ctx, pod, a)
}

// excludePool keeps the ranges of an IPPool from pods that request no address.
func (a *attempt) excludePool(pool *networkv1alpha1.IPPool) {
	read, err := floating.ParsePool(pool)
	if err != nil {
		return // its own status says so
	}
	for _, s := range read.Segments {
		a.exclude(floating.Prefixes(s.AddressRange))
	}
}

// exclude keeps the parts of a range from pods that request no address.
func (a *attempt) exclude(parts []netip.Prefix) {
	for i := range a.pools {
		for _, part := range parts {
			if a.pools[i].Subnet.Contains(part.Addr()) {
				a.pools[i].Exclude = append(slices.Clip(a.pools[i].Exclude), part)
			}
		}
	}
}

// claimFloating claims the pod's addresses of its IPPool. If no address is free, the attempt fails and the pod waits.
func (r *Reconciler) claimFloating(ctx context.Context, pod *corev1.Pod, a *attempt) error {
	var node corev1.Node
	if err := r.Client.Get(ctx, types.NamespacedName{Name: pod.Spec.NodeName}, &node); client.IgnoreNotFound(err) != nil {
		return err
	}
	on := floating.Node{Name: pod.Spec.NodeName, Labels: node.Labels}
	_, got, _ := r.Addresses.Of(a.port.Network.Name).Get(a.owner)
	var has []netip.Addr
	for _, prefix := range got.Addresses {
		has = append(has, prefix.Addr())
	}
	addresses, err := r.Floating.Claim(ctx, pod, on, has)
	if errors.As(err, new(*floating.UnavailableError)) {
		r.holders.waiters.Wait(client.ObjectKeyFromObject(pod), kind.Awaited{Pool: a.pool})
		addresses, err = r.Floating.Claim(ctx, pod, on, has)
	}
	if errors.As(err, new(*floating.UnavailableError)) {
		a.failed = err
		return nil
	}
	a.floating = addresses
	return err
}

// allocateFloating gives an attempt the addresses of its IPPool.
func (r *Reconciler) allocateFloating(a *attempt, on string, request alloc.Request) (alloc.Assignment, error) {
	addresses := r.Addresses.Of(a.port.Network.Name)
	if _, got, ok := addresses.Get(a.owner); ok {
		return got, nil
	}
	if len(request.Addresses) > 0 {
		return alloc.Assignment{}, fmt.Errorf("ips: the pod has addresses of IPPool %s on this network", a.pool)
	}
	want := alloc.Assignment{MAC: request.MAC}
	for _, address := range a.floating {
		for _, pool := range a.pools {
			if pool.Subnet.Contains(address) {
				want.Addresses = append(want.Addresses, netip.PrefixFrom(address, pool.Subnet.Bits()))
			}
		}
	}
	return addresses.Reclaim(on, a.owner, want)
}
