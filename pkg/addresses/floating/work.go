package floating

import (
	"net/netip"
	"slices"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

// work indexes the addresses of one workload, so that a pod's choice does not depend on how many pods the workload has.
type work struct {
	all map[netip.Addr]struct{}
	// kept are the addresses without a pod.
	kept map[netip.Addr]struct{}
	// named are the addresses by the name of their pod, for workloads whose pods keep their names.
	named  map[string]map[netip.Addr]struct{}
	places map[place]*occupants
}

// place is what a pod gets one address for.
type place struct {
	pool string
	slot
}

// occupants are the addresses of a workload for one place.
type occupants struct {
	held int          // how many have a pod
	kept []netip.Addr // the others, in order
}

func placeOf(f entry) place { return place{f.Spec.Pool, slotOf(f)} }

// work returns the index of a workload.
func (b *Book) work(of Workload) *work {
	w := b.byWork[of]
	if w == nil {
		w = &work{all: map[netip.Addr]struct{}{}, kept: map[netip.Addr]struct{}{}, named: map[string]map[netip.Addr]struct{}{},
			places: map[place]*occupants{}}
		b.byWork[of] = w
	}
	return w
}

func (w *work) add(f entry) {
	h := f.Spec.Holder
	w.all[f.address] = struct{}{}
	if WorkloadOf(h).NamesPods() {
		add(w.named, h.Pod, f.address)
	}
	at := w.places[placeOf(f)]
	if at == nil {
		at = &occupants{}
		w.places[placeOf(f)] = at
	}
	if h.PodUID != "" {
		at.held++
		return
	}
	w.kept[f.address] = struct{}{}
	at.kept = slices.Insert(at.kept, at.lower(f.address, netip.Addr.Compare), f.address)
}

// remove reports whether the workload has no addresses any more.
func (w *work) remove(f entry) (empty bool) {
	h := f.Spec.Holder
	delete(w.all, f.address)
	delete(w.kept, f.address)
	if WorkloadOf(h).NamesPods() {
		remove(w.named, h.Pod, f.address)
	}
	at := w.places[placeOf(f)]
	if h.PodUID != "" {
		at.held--
	} else if i, found := slices.BinarySearchFunc(at.kept, f.address, netip.Addr.Compare); found {
		if at.kept = slices.Delete(at.kept, i, i+1); len(at.kept) == 0 {
			at.kept = nil
		}
	}
	if at.held == 0 && len(at.kept) == 0 {
		delete(w.places, placeOf(f))
	}
	return len(w.all) == 0
}

// lower counts the kept addresses below an address, by a binary search.
func (o *occupants) lower(address netip.Addr, compare func(x, y netip.Addr) int) int {
	n, _ := slices.BinarySearchFunc(o.kept, address, compare)
	return n
}

// Before counts the addresses of a FloatingIP's workload that the workload keeps before it when it scales down: of the
// addresses for one index and family, those with a pod come first, then the lowest.
func (b *Book) Before(f *networkv1alpha1.FloatingIP) (n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	w := b.byWork[WorkloadOf(f.Spec.Holder)]
	address, err := addressOf(f)
	if w == nil || err != nil {
		return 0
	}
	of := placeOf(entry{f, address})
	at := w.places[of]
	if at == nil {
		return 0
	}
	n = at.held + at.lower(address, netip.Addr.Compare)
	if had := b.ips[address]; had != nil && had.Spec.Holder != nil && had.Spec.Holder.PodUID != "" &&
		WorkloadOf(had.Spec.Holder) == WorkloadOf(f.Spec.Holder) && placeOf(entry{had, address}) == of {
		n-- // itself
	}
	return n
}

// LastKept returns the address without a pod that the workload of a FloatingIP keeps last, for the same index and family: the first to
// become free when the workload has too many. It is nil without one.
func (b *Book) LastKept(f *networkv1alpha1.FloatingIP) *networkv1alpha1.FloatingIP {
	b.mu.Lock()
	defer b.mu.Unlock()
	w := b.byWork[WorkloadOf(f.Spec.Holder)]
	address, err := addressOf(f)
	if w == nil || err != nil {
		return nil
	}
	at := w.places[placeOf(entry{f, address})]
	if at == nil || len(at.kept) == 0 {
		return nil
	}
	return b.ips[at.kept[len(at.kept)-1]]
}
