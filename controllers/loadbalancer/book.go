package loadbalancer

import (
	"cmp"
	"context"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/loadbalancer"
)

// book lists which other Service has which address.
func (r *Allocator) book(ctx context.Context, s *corev1.Service) (loadbalancer.Book, error) {
	var list corev1.ServiceList
	if err := r.Client.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil { // they are only read
		return nil, err
	}
	book := loadbalancer.Book{}
	for i := range list.Items {
		other := &list.Items[i]
		name := client.ObjectKeyFromObject(other)
		if name == client.ObjectKeyFromObject(s) {
			continue
		}
		use := loadbalancer.Use{Of: "service " + name.String(), Younger: precedes(s, other)}
		balancing := loadbalancer.AddressesOf(other)
		for _, a := range facts.ExternalAddresses(other) {
			if !slices.Contains(balancing, a) {
				book[a] = append(book[a], use) // an external IP is never shared
			}
		}
		if w, ok := r.written[name]; ok && w.uid == other.UID {
			balancing = append(balancing, w.addresses...)
		}
		use.Sharing = loadbalancer.SharingOf(other)
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

// precedes reports whether a Service keeps an address that both have: the older does, then the first by name.
func precedes(a, b *corev1.Service) bool {
	if x, y := a.CreationTimestamp.Time, b.CreationTimestamp.Time; !x.Equal(y) {
		return x.Before(y)
	}
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name)) < 0
}
