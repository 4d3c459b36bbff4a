package loadbalancer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/balance"
	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/floating"
	"github.com/weft-network/weft/pkg/loadbalancer"
)

// book lists which other Service, or pod on a segment, has which address. written are addresses that the cache may lack. A nil s stands
// for every Service, which keeps what it has.
func (r *Allocator) book(ctx context.Context, s *corev1.Service, written map[types.NamespacedName]given) (loadbalancer.Book, error) {
	var list corev1.ServiceList
	var pools networkv1alpha1.IPPoolList
	var egressIPs networkv1alpha1.EgressIPList
	if err := errors.Join(r.Client.List(ctx, &list, client.UnsafeDisableDeepCopy), r.Client.List(ctx, &pools, client.UnsafeDisableDeepCopy),
		r.Client.List(ctx, &egressIPs, client.UnsafeDisableDeepCopy)); err != nil { // they are only read
		return nil, err
	}
	claims := balance.NewClaims(pools.Items, egressIPs.Items)
	book := loadbalancer.Book{}
	if err := errors.Join(r.addPods(ctx, pools.Items, book), r.addAttachments(ctx, book)); err != nil {
		return nil, err
	}
	for i := range list.Items {
		other := &list.Items[i]
		name := client.ObjectKeyFromObject(other)
		if s != nil && name == client.ObjectKeyFromObject(s) {
			continue
		}
		use := loadbalancer.Use{Of: "service " + name.String()}
		balancing := loadbalancer.AddressesOf(other)
		for _, a := range facts.ExternalAddresses(other) {
			if !slices.Contains(balancing, a) && claims.Owner(other, a) == "" { // an external IP is never shared, and takes no address away
				book[a] = append(book[a], loadbalancer.Use{Of: use.Of, Younger: true})
			}
		}
		if w, ok := written[name]; ok && w.uid == other.UID {
			balancing = append(balancing, w.addresses...)
		}
		use.Sharing, use.Younger = loadbalancer.SharingOf(other), s == nil || precedes(s, other)
		slices.SortFunc(balancing, netip.Addr.Compare)
		for _, a := range slices.Compact(balancing) {
			book[a] = append(book[a], use)
		}
	}
	for _, uses := range book { // messages must be the same each time
		slices.SortFunc(uses, func(a, b loadbalancer.Use) int { return cmp.Compare(a.Of, b.Of) })
	}
	return book, nil
}

// addPods adds the addresses that workloads have of IPPools on a segment of the data centre. A Service keeps an address that it has,
// because such a pool skips it.
func (r *Allocator) addPods(ctx context.Context, pools []networkv1alpha1.IPPool, to loadbalancer.Book) error {
	for i := range pools {
		pool := &pools[i]
		if pool.Spec.Location != networkv1alpha1.LocationUnderlay {
			continue
		}
		var network networkv1alpha1.Network
		err := r.Client.Get(ctx, client.ObjectKey{Name: pool.Spec.Network}, &network, client.UnsafeDisableDeepCopy)
		if err != nil || network.Spec.Topology != networkv1alpha1.TopologyLocalnet {
			if client.IgnoreNotFound(err) != nil {
				return err
			}
			continue
		}
		if err := r.Floating.Load(ctx); err != nil {
			return err
		}
		for _, f := range r.Floating.Book.InPool(pool.Name) {
			if address, err := netip.ParseAddr(string(f.Spec.Address)); err == nil && f.Spec.Holder != nil {
				of := fmt.Sprintf("%s by IPPool %s", floating.WorkloadOf(f.Spec.Holder), pool.Name)
				to[address] = append(to[address], loadbalancer.Use{Of: of, Exclusive: true, Younger: true})
			}
		}
	}
	return nil
}

// addAttachments adds the addresses that pods and IPAMClaims have of Networks on a segment of the data centre. A Service keeps an address
// that it has, because such a Network gives it to no pod.
func (r *Allocator) addAttachments(ctx context.Context, to loadbalancer.Book) error {
	var networks networkv1alpha1.NetworkList
	if err := r.Client.List(ctx, &networks, client.UnsafeDisableDeepCopy); err != nil { // they are only read
		return err
	}
	pools, err := r.pools(ctx)
	if err != nil {
		return err
	}
	for i := range networks.Items {
		n := &networks.Items[i]
		if n.Spec.Topology != networkv1alpha1.TopologyLocalnet || len(n.Spec.Subnets) == 0 {
			continue
		}
		if err := r.RestoreNetworks(ctx); err != nil {
			return err
		}
		for address, owner := range r.OnNetworks.Of(n.Name).Users() {
			if !slices.ContainsFunc(pools.all, func(p loadbalancer.Pool) bool { return p.Contains(address) }) {
				continue
			}
			of := fmt.Sprintf("%s on Network %s", owner, n.Name)
			to[address] = append(to[address], loadbalancer.Use{Of: of, Exclusive: true, Younger: true})
		}
	}
	return nil
}

// precedes reports whether a Service keeps an address that load balancers gave to both: the older does, then the first by name.
func precedes(a, b *corev1.Service) bool {
	if x, y := a.CreationTimestamp.Time, b.CreationTimestamp.Time; !x.Equal(y) {
		return x.Before(y)
	}
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name)) < 0
}
