package loadbalancerpool

import (
	"context"
	"net/netip"
	"slices"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/controllers/kind"
	"github.com/weft-network/weft/pkg/addresses/addressprobe"
	"github.com/weft-network/weft/pkg/addresses/lbpool"
)

// readProbes adds what the nodes found out: the book gets the addresses of foreign hosts, and the pools get the addresses that wait. An
// address that a Service has is never probed.
func (r *Allocator) readProbes(ctx context.Context, pools []lbpool.Pool, book lbpool.Book) error {
	nodes, err := kind.Probes(ctx, r.Client)
	if err != nil {
		return err
	}
	for a, mac := range nodes.Foreign() {
		if len(book[a]) == 0 {
			book[a] = []lbpool.Use{lbpool.ForeignHost(mac)}
		}
	}
	if r.Planning {
		return nil
	}
	for i := range pools {
		pools[i].Waits = func(a netip.Addr) bool {
			v, _ := nodes.Of(a)
			return v == addressprobe.Waits
		}
	}
	return nil
}

// maxKnown is how many addresses of foreign hosts stay probed while no Service waits, so that they are given when the hosts are gone.
const maxKnown = networkv1alpha1.MaxAddressProbes / 2

// probes lists the addresses that Services wait for, a different one for each, and the addresses of pools that foreign hosts have. It
// reads only the cache, because another goroutine than the allocator's calls it.
func (r *Allocator) probes(ctx context.Context) ([]netip.Addr, error) {
	pools, err := r.pools(ctx)
	if err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(pools.all, func(p lbpool.Pool) bool { return p.OnSegment }) {
		return nil, nil
	}
	book, err := r.book(ctx, nil)
	if err != nil {
		return nil, err
	}
	if err := r.readProbes(ctx, pools.all, book); err != nil {
		return nil, err
	}
	var known []netip.Addr // of foreign hosts
	for a, uses := range book {
		onSegment := func(p lbpool.Pool) bool { return p.OnSegment && p.Contains(a) }
		if uses[0].MAC != "" && slices.ContainsFunc(pools.all, onSegment) {
			known = append(known, a)
		}
	}
	var found, requested []netip.Addr
	waiting, err := r.lacking(ctx)
	if err != nil {
		return nil, err
	}
	for _, s := range waiting {
		if !lbpool.Wants(s) {
			continue
		}
		namespace, err := kind.NamespaceLabels(ctx, r.Client, s.Namespace)
		if err != nil {
			return nil, err
		}
		request, err := lbpool.ParseRequest(s, namespace)
		if err != nil {
			continue // the Service's condition reports the error
		}
		requested = append(requested, request.Addresses...)
		for _, a := range lbpool.Assign(request, lbpool.AddressesOf(s), pools.all, book).Chosen {
			found = append(found, a)
			book.Add(a, request)
		}
	}
	if len(found) == 0 { // otherwise a Service has to pass over all that are known
		known = first(known, requested, maxKnown)
	}
	return append(found, known...), nil
}

// first returns at most most of the addresses: the requested, then the lowest.
func first(known, requested []netip.Addr, most int) []netip.Addr {
	slices.SortFunc(known, func(a, b netip.Addr) int {
		if x, y := slices.Contains(requested, a), slices.Contains(requested, b); x != y {
			if x {
				return -1
			}
			return 1
		}
		return a.Compare(b)
	})
	return known[:min(len(known), most)]
}
