package floating

import (
	"net/netip"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

// work indexes the addresses of one workload, so that a pod's choice does not depend on how many pods the workload has.
type work struct {
	all map[netip.Addr]struct{}
	// kept are the addresses without a pod.
	kept map[netip.Addr]struct{}
	// named are the addresses by the name of their pod, for workloads whose pods keep their names.
	named map[string]map[netip.Addr]struct{}
	// held counts the addresses that have a pod.
	held map[place]int
}

// place is what a pod gets one address for.
type place struct {
	pool string
	slot
}

func placeOf(f entry) place { return place{f.Spec.Pool, slotOf(f)} }

// work returns the index of a workload.
func (b *Book) work(of Workload) *work {
	w := b.byWork[of]
	if w == nil {
		w = &work{all: map[netip.Addr]struct{}{}, kept: map[netip.Addr]struct{}{}, named: map[string]map[netip.Addr]struct{}{},
			held: map[place]int{}}
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
	if h.PodUID == "" {
		w.kept[f.address] = struct{}{}
	} else {
		w.held[placeOf(f)]++
	}
}

// remove reports whether the workload has no addresses any more.
func (w *work) remove(f entry) (empty bool) {
	h := f.Spec.Holder
	delete(w.all, f.address)
	delete(w.kept, f.address)
	if WorkloadOf(h).NamesPods() {
		remove(w.named, h.Pod, f.address)
	}
	if h.PodUID != "" {
		if w.held[placeOf(f)]--; w.held[placeOf(f)] == 0 {
			delete(w.held, placeOf(f))
		}
	}
	return len(w.all) == 0
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
	n = w.held[of]
	if had := b.ips[address]; had != nil && had.Spec.Holder != nil && had.Spec.Holder.PodUID != "" &&
		WorkloadOf(had.Spec.Holder) == WorkloadOf(f.Spec.Holder) && placeOf(entry{had, address}) == of {
		n-- // itself
	}
	for other := range w.kept {
		if other.Less(address) && placeOf(entry{b.ips[other], other}) == of {
			n++
		}
	}
	return n
}
