package loadbalancerpool

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
	"github.com/weft-network/weft/pkg/addresses/balance"
	"github.com/weft-network/weft/pkg/addresses/floating"
	"github.com/weft-network/weft/pkg/addresses/lbpool"
	"github.com/weft-network/weft/pkg/facts"
)

// book lists which Service, or pod on a segment, has which address. written are addresses that the cache may lack.
func (r *Allocator) book(ctx context.Context, written map[types.NamespacedName]given) (lbpool.Book, error) {
	var list corev1.ServiceList
	var pools networkv1alpha1.IPPoolList
	var egressIPs networkv1alpha1.EgressIPList
	if err := errors.Join(r.Client.List(ctx, &list), r.Client.List(ctx, &pools),
		r.Client.List(ctx, &egressIPs)); err != nil {
		return nil, err
	}
	claims := balance.NewClaims(pools.Items, egressIPs.Items)
	book := lbpool.Book{}
	if err := errors.Join(r.addPods(ctx, pools.Items, book), r.addAttachments(ctx, book)); err != nil {
		return nil, err
	}
	for i := range list.Items {
		other := &list.Items[i]
		name := client.ObjectKeyFromObject(other)
		use := lbpool.Use{Of: "service " + name.String()}
		balancing := lbpool.AddressesOf(other)
		for _, a := range facts.ExternalAddresses(other) {
			if !slices.Contains(balancing, a) && claims.Owner(other, a) == "" { // an external IP is never shared, and takes no address away
				book[a] = append(book[a], lbpool.Use{Of: use.Of, Younger: true})
			}
		}
		if w, ok := written[name]; ok && w.uid == other.UID {
			balancing = append(balancing, w.addresses...)
		}
		use.Sharing, use.Created = lbpool.SharingOf(other), other.CreationTimestamp.Time
		slices.SortFunc(balancing, netip.Addr.Compare)
		for _, a := range slices.Compact(balancing) {
			book[a] = append(book[a], use)
		}
	}
	for _, uses := range book { // messages must be the same each time
		slices.SortFunc(uses, func(a, b lbpool.Use) int { return cmp.Compare(a.Of, b.Of) })
	}
	return book, nil
}

// addPods adds the addresses that workloads have of IPPools on a segment of the data centre. A Service keeps an address that it has,
// because such a pool skips it.
func (r *Allocator) addPods(ctx context.Context, pools []networkv1alpha1.IPPool, to lbpool.Book) error {
	for i := range pools {
		pool := &pools[i]
		if pool.Spec.Location != networkv1alpha1.LocationUnderlay {
			continue
		}
		var network networkv1alpha1.Network
		err := r.Client.Get(ctx, client.ObjectKey{Name: pool.Spec.Network}, &network)
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
				to[address] = append(to[address], lbpool.Use{Of: of, Exclusive: true, Younger: true})
			}
		}
	}
	return nil
}

// addAttachments adds the addresses that pods and IPAMClaims have of Networks on a segment of the data centre. A Service keeps an address
// that it has, because such a Network gives it to no pod.
func (r *Allocator) addAttachments(ctx context.Context, to lbpool.Book) error {
	var networks networkv1alpha1.NetworkList
	if err := r.Client.List(ctx, &networks); err != nil {
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
			if !slices.ContainsFunc(pools.all, func(p lbpool.Pool) bool { return p.Contains(address) }) {
				continue
			}
			of := fmt.Sprintf("%s on Network %s", owner, n.Name)
			to[address] = append(to[address], lbpool.Use{Of: of, Exclusive: true, Younger: true})
		}
	}
	return nil
}
