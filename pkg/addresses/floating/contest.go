package floating

import (
	"net/netip"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

// Precedes reports whether an EgressIP takes precedence over a pool for an address: the older one does, and of one second the pool yields.
// A LoadBalancerPool yields to an IPPool alike. Between a pool and a Service, InForce decides.
func Precedes(created metav1.Time, pool metav1.Object) bool {
	of := pool.GetCreationTimestamp()
	return !of.Before(&created)
}

// maxRanges is the most ranges that a pool's status lists.
const maxRanges = 64

// Ranges returns the ranges of a pool in force: of its spec if the operator has accepted it, else of its status.
func Ranges(pool *networkv1alpha1.IPPool) []string {
	ready := meta.FindStatusCondition(pool.Status.Conditions, networkv1alpha1.ConditionReady)
	if ready == nil || ready.ObservedGeneration != pool.Generation || ready.Status != metav1.ConditionTrue {
		return pool.Status.Ranges
	}
	read, _ := ParsePool(pool) // an accepted spec can be read
	return read.Texts()
}

// RangesInUse returns the addresses of a pool that workloads have, as ranges in order, at most the first 64.
func (b *Book) RangesInUse(pool string) (texts []string) {
	var ranges []networkv1alpha1.AddressRange
	for _, f := range b.InPool(pool) {
		a, err := netip.ParseAddr(string(f.Spec.Address))
		if err != nil || f.Spec.Holder == nil {
			continue
		}
		if last := len(ranges) - 1; last >= 0 && ranges[last].Last.Next() == a {
			ranges[last].Last = a
		} else if len(ranges) < maxRanges {
			ranges = append(ranges, networkv1alpha1.AddressRange{First: a, Last: a})
		}
	}
	for _, r := range ranges {
		texts = append(texts, r.String())
	}
	return texts
}

// Texts returns the ranges of the pool as a status lists them.
func (p Pool) Texts() (texts []string) {
	for _, s := range p.Segments {
		texts = append(texts, s.AddressRange.String())
	}
	return texts
}

// InForce has the ranges in force of NAT pools. A Service yields to them, whatever the ages, and they yield to no Service.
type InForce []Taken

// NewInForce reads the ranges in force of the NAT pools.
func NewInForce(pools []networkv1alpha1.IPPool) (all InForce) {
	for i := range pools {
		if pools[i].Spec.Location != networkv1alpha1.LocationNAT {
			continue
		}
		for _, text := range Ranges(&pools[i]) {
			if r, err := networkv1alpha1.ParseAddressRange(text); err == nil {
				all = append(all, Taken{AddressRange: r, Of: "IPPool " + pools[i].Name})
			}
		}
	}
	return all
}

// Owner returns the pool that has an address: "IPPool web", or "". Of several pools, that is the first by name.
func (f InForce) Owner(address netip.Addr) (owner string) {
	for _, t := range f {
		if t.Contains(address) && (owner == "" || t.Of < owner) {
			owner = t.Of
		}
	}
	return owner
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
// because its own status reports that.
func NewTranslated(pools []networkv1alpha1.IPPool, book *Book) (all Translated) {
	all.stranded = book.stranded(pools, "")
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

// Owner returns the name of the pool that takes precedence for an address over an EgressIP with this creation time, or "". Of several
// pools with the address, that is the oldest.
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
