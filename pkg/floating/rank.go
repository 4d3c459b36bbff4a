package floating

import (
	"net/netip"
	"slices"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

// place is what addresses of a workload compete for: as many of one place stay as the workload has replicas.
type place struct {
	Workload
	pool  string
	index int32
	is4   bool
}

// occupants are the addresses of one place.
type occupants struct {
	used int          // those with a pod
	kept []netip.Addr // the others, in order
}

func placeOf(f *networkv1alpha1.FloatingIP, address netip.Addr) place {
	return place{WorkloadOf(f.Spec.Holder), f.Spec.Pool, f.Spec.Holder.Index, address.Is4()}
}

// Before counts the addresses of the same place that stay before an address whose pod has ended: the addresses with a
// pod, and the lower ones.
func (b *Book) Before(f *networkv1alpha1.FloatingIP) int {
	address, err := addressOf(f)
	if err != nil || f.Spec.Holder == nil {
		return 0
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	o := b.places[placeOf(f, address)]
	if o == nil {
		return 0
	}
	lower, _ := slices.BinarySearchFunc(o.kept, address, netip.Addr.Compare)
	before := o.used + lower
	was := b.ips[address]
	if was != nil && was.Spec.Holder != nil && was.Spec.Holder.PodUID != "" && placeOf(was, address) == placeOf(f, address) {
		before-- // it counts itself
	}
	return before
}

// occupy adds an address to its place.
func (b *Book) occupy(f *networkv1alpha1.FloatingIP, address netip.Addr) {
	at := placeOf(f, address)
	o := b.places[at]
	if o == nil {
		o = &occupants{}
		b.places[at] = o
	}
	if f.Spec.Holder.PodUID != "" {
		o.used++
	} else if i, found := slices.BinarySearchFunc(o.kept, address, netip.Addr.Compare); !found {
		o.kept = slices.Insert(o.kept, i, address)
	}
}

// leave removes an address from its place.
func (b *Book) leave(f *networkv1alpha1.FloatingIP, address netip.Addr) {
	at := placeOf(f, address)
	o := b.places[at]
	if o == nil {
		return
	}
	if f.Spec.Holder.PodUID != "" {
		o.used--
	} else if i, found := slices.BinarySearchFunc(o.kept, address, netip.Addr.Compare); found {
		o.kept = slices.Delete(o.kept, i, i+1)
	}
	if o.used == 0 && len(o.kept) == 0 {
		delete(b.places, at)
	}
}
