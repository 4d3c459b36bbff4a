package floating

import (
	"net/netip"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

// Precedes reports whether an object of another kind, such as an EgressIP or a Service, takes precedence over a pool
// for an address: the older one does, and of one second the pool yields. A LoadBalancerPool yields to an IPPool alike.
func Precedes(created metav1.Time, pool metav1.Object) bool {
	of := pool.GetCreationTimestamp()
	return !of.Before(&created)
}

// Keeps reports whether a pool keeps its ranges from others. A refused pool without addresses in use does not. A pool
// whose status does not follow its spec yet does.
func Keeps(pool *networkv1alpha1.IPPool) bool {
	ready := meta.FindStatusCondition(pool.Status.Conditions, networkv1alpha1.ConditionReady)
	return ready == nil || ready.ObservedGeneration != pool.Generation || ready.Status != metav1.ConditionFalse ||
		ready.Reason == networkv1alpha1.ReasonRangeInUse || pool.Status.Used+pool.Status.Kept > 0
}

// Translated finds the addresses of NAT pools. The zero value has none.
type Translated struct {
	pools []translatedPool
	// stranded maps the addresses that are in use although no pool has them in its ranges to the names of their pools. They yield to
	// no object, because their FloatingIPs exist.
	stranded map[netip.Addr]string
}

type translatedPool struct {
	of *networkv1alpha1.IPPool
	Pool
}

// NewTranslated reads the NAT pools that keep their ranges from others. It leaves out a pool that cannot be read,
// because its own status reports that. A nil book has no stranded addresses.
func NewTranslated(pools []networkv1alpha1.IPPool, book *Book) (all Translated) {
	if book != nil {
		all.stranded = book.stranded(pools, "")
	}
	for i := range pools {
		pool, err := ParsePool(&pools[i])
		if err == nil && pool.Location == networkv1alpha1.LocationNAT && Keeps(&pools[i]) {
			all.pools = append(all.pools, translatedPool{&pools[i], pool})
		}
	}
	return all
}

// Stranded returns the name of the pool whose range had an address that is still in use, or "".
func (t Translated) Stranded(address netip.Addr) string { return t.stranded[address] }

// Owner returns the name of the pool that takes precedence for an address over an object of another kind, or "". Of
// several pools with the address, that is the oldest.
func (t Translated) Owner(address netip.Addr, created metav1.Time) string {
	var first *networkv1alpha1.IPPool
	for _, p := range t.pools {
		if _, has := p.SegmentOf(address); has && !Precedes(created, p.of) && (first == nil || IsBefore(p.of, first)) {
			first = p.of
		}
	}
	if first == nil {
		return ""
	}
	return first.Name
}

// Taken returns the stranded addresses, and the ranges of the pools that take precedence over a LoadBalancerPool.
func (t Translated) Taken(over *networkv1alpha1.LoadBalancerPool) (taken []Taken) {
	for address, name := range t.stranded {
		taken = append(taken, Taken{AddressRange: networkv1alpha1.AddressRange{First: address, Last: address}, Of: "IPPool " + name})
	}
	for _, p := range t.pools {
		if !Precedes(p.of.CreationTimestamp, over) {
			continue
		}
		for _, s := range p.Segments {
			taken = append(taken, Taken{AddressRange: s.AddressRange, Of: "IPPool " + p.of.Name})
		}
	}
	return taken
}

// IsBefore orders pools by their creation, and then by their name.
func IsBefore(a, b *networkv1alpha1.IPPool) bool {
	if !a.CreationTimestamp.Equal(&b.CreationTimestamp) {
		return a.CreationTimestamp.Before(&b.CreationTimestamp)
	}
	return a.Name < b.Name
}
