package floating

import (
	"cmp"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

// Workload is what keeps addresses: the controller of a pod, or the pod itself.
type Workload struct{ APIVersion, Kind, Namespace, Name string }

// WorkloadOf returns the workload of a holder.
func WorkloadOf(h *networkv1alpha1.FloatingIPHolder) Workload {
	return Workload{h.APIVersion, h.Kind, h.Namespace, h.Name}
}

// String renders the workload as in messages: "Deployment demo/web".
func (w Workload) String() string { return w.Kind + " " + w.Namespace + "/" + w.Name }

// NamesPods reports whether an address belongs to a pod's name, because the workload's pods keep their names.
func (w Workload) NamesPods() bool { return w.Kind == "StatefulSet" || w.Kind == "Pod" }

// Book indexes the IPPools and FloatingIPs. It is safe for concurrent use. The zero value is not usable: see NewBook.
type Book struct {
	mu     sync.Mutex
	pools  map[string]*shelf
	ips    map[netip.Addr]*networkv1alpha1.FloatingIP
	byPod  map[types.UID]map[netip.Addr]struct{}
	byWork map[Workload]*work
	// pending are addresses that a pod is about to get, until its FloatingIP is written.
	pending map[netip.Addr]types.UID
}

// shelf is a pool with an index of its addresses.
type shelf struct {
	Pool
	// refused is why the pool gives no new addresses; empty: it gives.
	refused string
	known   bool
	// placed is true if Network is known: from the pool, also after it was deleted, or from a FloatingIP.
	placed bool
	// selectors are the different selectors of nodes; selector has that of each segment.
	selectors []labels.Selector
	selector  []int
	// sizes are the numbers of addresses of the segments.
	sizes []int64
	// taken counts the addresses of each segment that have a holder or a reservation.
	taken []int64
	// next is an address of each segment before which all have a FloatingIP; not valid: all have.
	next []netip.Addr
	// free are the FloatingIPs of each segment without holder and reservation, the longest free first.
	free       [][]vacancy
	used, kept int64
	// all are the addresses with a FloatingIP of the pool, outside the addresses among them in no segment.
	// inside counts the others by family: of IPv6 and of IPv4.
	all, outside map[netip.Addr]struct{}
	inside       [2]int
	// claimedOutside counts the addresses outside that have a holder or a reservation.
	claimedOutside int64
}

// NewBook returns an empty book.
func NewBook() *Book {
	return &Book{pools: map[string]*shelf{}, ips: map[netip.Addr]*networkv1alpha1.FloatingIP{},
		byPod: map[types.UID]map[netip.Addr]struct{}{}, byWork: map[Workload]*work{}, pending: map[netip.Addr]types.UID{}}
}

// SetPool records a pool. refused is why it gives no new addresses; empty: it gives. changed reports whether that is new.
func (b *Book) SetPool(p Pool, refused string) (changed bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.shelf(p.Name)
	if s.known && s.refused == refused && s.Pool.equal(p) {
		return false
	}
	s.Pool, s.refused, s.known, s.placed = p, refused, true, true
	b.recount(s)
	return true
}

// RemovePool forgets a pool except for its location and Network, and reports whether it was known. Its FloatingIPs stay.
func (b *Book) RemovePool(name string) (known bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.pools[name]
	if s == nil || !s.known {
		return false
	}
	s.Pool, s.refused, s.known = Pool{Name: name, Location: s.Location, Network: s.Network}, "", false
	b.recount(s)
	return true
}

func (p Pool) equal(o Pool) bool {
	return p.Location == o.Location && p.Network == o.Network && p.Size == o.Size && sameSelector(p.Namespaces, o.Namespaces) &&
		slices.EqualFunc(p.Segments, o.Segments, func(a, b Segment) bool {
			return a.AddressRange == b.AddressRange && sameSelector(a.Nodes, b.Nodes)
		})
}

// sameSelector reports whether two selectors select the same. A selector of everything and one of nothing have the same text.
func sameSelector(a, b labels.Selector) bool {
	_, x := a.Requirements()
	_, y := b.Requirements()
	return x == y && a.String() == b.String()
}

func (b *Book) shelf(name string) *shelf {
	s := b.pools[name]
	if s == nil {
		s = &shelf{Pool: Pool{Name: name}, all: map[netip.Addr]struct{}{}, outside: map[netip.Addr]struct{}{}}
		b.pools[name] = s
	}
	return s
}

// vacancy is a FloatingIP without a holder, since when.
type vacancy struct {
	since   time.Time
	address netip.Addr
}

// byAge orders the longest free address first.
func byAge(a, b vacancy) int { return cmp.Or(a.since.Compare(b.since), a.address.Compare(b.address)) }

// recount rebuilds the index of a pool after a change of its segments.
func (b *Book) recount(s *shelf) {
	n := len(s.Segments)
	s.taken, s.next, s.free, s.used, s.kept = make([]int64, n), make([]netip.Addr, n), make([][]vacancy, n), 0, 0
	s.selectors, s.selector, s.sizes = nil, make([]int, n), make([]int64, n)
	s.outside, s.inside = map[netip.Addr]struct{}{}, [2]int{}
	s.claimedOutside = 0
	texts := map[string]int{}
	for i := range s.Segments {
		s.next[i], s.sizes[i] = s.Segments[i].First, s.Segments[i].Size()
		text := s.Segments[i].Nodes.String()
		at, known := texts[text]
		if !known {
			at = len(s.selectors)
			texts[text], s.selectors = at, append(s.selectors, s.Segments[i].Nodes)
		}
		s.selector[i] = at
	}
	for a := range s.all {
		s.count(a, b.ips[a], 1)
	}
}

// segmentOf returns the segment with an address, or -1.
func (s *shelf) segmentOf(a netip.Addr) int {
	return slices.IndexFunc(s.Segments, func(segment Segment) bool { return segment.Contains(a) })
}

// count adds a FloatingIP to the index of segments, or removes it.
func (s *shelf) count(address netip.Addr, f *networkv1alpha1.FloatingIP, by int64) {
	switch h := f.Spec.Holder; {
	case h != nil && h.PodUID != "":
		s.used += by
	case h != nil:
		s.kept += by
	}
	i := s.segmentOf(address)
	if i < 0 && isClaimed(f) {
		s.claimedOutside += by
	}
	if i < 0 {
		if delete(s.outside, address); by > 0 {
			s.outside[address] = struct{}{}
		}
		return
	}
	s.inside[one(address.Is4())] += int(by)
	if isClaimed(f) {
		s.taken[i] += by
		return
	}
	v := vacancy{freedAt(f).Time, address}
	switch at, found := slices.BinarySearchFunc(s.free[i], v, byAge); {
	case by > 0 && !found:
		s.free[i] = slices.Insert(s.free[i], at, v)
	case by < 0 && found:
		s.free[i] = slices.Delete(s.free[i], at, at+1)
	}
}

// nextUnknown returns an address of a segment before which all have a FloatingIP. It is not valid if all have.
func (b *Book) nextUnknown(s *shelf, i int) netip.Addr {
	for s.next[i].IsValid() && b.ips[s.next[i]] != nil {
		if s.next[i] == s.Segments[i].Last {
			s.next[i] = netip.Addr{}
		} else {
			s.next[i] = s.next[i].Next()
		}
	}
	return s.next[i]
}

// vacate notes for all pools that an address has no FloatingIP any more.
func (b *Book) vacate(address netip.Addr) {
	for _, s := range b.pools {
		if i := s.segmentOf(address); i >= 0 && (!s.next[i].IsValid() || address.Less(s.next[i])) {
			s.next[i] = address
		}
	}
}

// IsReserved reports whether a person reserved an address by the label of its FloatingIP.
func IsReserved(f *networkv1alpha1.FloatingIP) bool {
	_, reserved := f.Labels[networkv1alpha1.ReservedLabel]
	return reserved
}

// Observe records a FloatingIP. It ignores a version that is older than the recorded version, because caches are
// behind what this process writes. changed reports whether it was new.
func (b *Book) Observe(f *networkv1alpha1.FloatingIP) (changed bool) {
	address, err := addressOf(f)
	if err != nil {
		return false // the API server refuses such a FloatingIP
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	was := b.ips[address]
	if was != nil && !newer(f.ResourceVersion, was.ResourceVersion) {
		return false
	}
	b.put(address, f)
	return true
}

// Place gives a FloatingIP the label that says which Network its pool is on, if the book has the pool.
func (b *Book) Place(f *networkv1alpha1.FloatingIP) {
	if pool, _, ok := b.Pool(f.Spec.Pool); ok {
		metav1.SetMetaDataLabel(&f.ObjectMeta, networkv1alpha1.PoolNetworkLabel, pool.Network)
	}
}

// put replaces an address' FloatingIP.
func (b *Book) put(address netip.Addr, f *networkv1alpha1.FloatingIP) {
	b.drop(address)
	b.ips[address] = f
	s := b.shelf(f.Spec.Pool)
	s.all[address] = struct{}{}
	if network, ok := f.Labels[networkv1alpha1.PoolNetworkLabel]; ok && !s.placed {
		s.Network, s.placed = network, true
	}
	s.count(address, f, 1)
	if h := f.Spec.Holder; h != nil {
		b.work(WorkloadOf(h)).add(entry{f, address})
		if h.PodUID != "" {
			add(b.byPod, h.PodUID, address)
		}
	}
}

// Forget removes a FloatingIP that was deleted, unless the book has a newer version of it.
func (b *Book) Forget(f *networkv1alpha1.FloatingIP) {
	address, err := addressOf(f)
	if err != nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if was := b.ips[address]; was != nil && (was.UID == f.UID || newer(f.ResourceVersion, was.ResourceVersion)) {
		b.drop(address)
		delete(b.ips, address)
		b.vacate(address)
	}
}

func (b *Book) drop(address netip.Addr) {
	was := b.ips[address]
	if was == nil {
		return
	}
	s := b.shelf(was.Spec.Pool)
	delete(s.all, address)
	s.count(address, was, -1)
	if h := was.Spec.Holder; h != nil {
		if w := WorkloadOf(h); b.work(w).remove(entry{was, address}) {
			delete(b.byWork, w)
		}
		remove(b.byPod, h.PodUID, address)
	}
}

// newer reports whether a resource version is later than another. Versions that are no numbers count as newer.
func newer(version, than string) bool {
	a, err := strconv.ParseUint(version, 10, 64)
	b, err2 := strconv.ParseUint(than, 10, 64)
	return err != nil || err2 != nil || a > b
}

func addressOf(f *networkv1alpha1.FloatingIP) (netip.Addr, error) {
	return netip.ParseAddr(string(f.Spec.Address))
}

func add[K comparable](index map[K]map[netip.Addr]struct{}, key K, address netip.Addr) {
	if index[key] == nil {
		index[key] = map[netip.Addr]struct{}{}
	}
	index[key][address] = struct{}{}
}

func remove[K comparable](index map[K]map[netip.Addr]struct{}, key K, address netip.Addr) {
	delete(index[key], address)
	if len(index[key]) == 0 {
		delete(index, key)
	}
}

// Counts of a pool's addresses.
type Counts struct{ Total, Used, Kept int64 }

// Counts returns how many addresses of a pool are in use.
func (b *Book) Counts(pool string) Counts {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.pools[pool]
	if s == nil {
		return Counts{}
	}
	return Counts{s.Total(), s.used, s.kept}
}

// Pool returns a pool; ok is false if no pool has the name.
func (b *Book) Pool(name string) (p Pool, refused string, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.pools[name]
	if s == nil || !s.known {
		return p, "", false
	}
	return s.Pool, s.refused, true
}

// Of returns the FloatingIPs that a pod has, IPv4 first, by their index. They must not be changed.
func (b *Book) Of(pod types.UID) []*networkv1alpha1.FloatingIP {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.sorted(b.byPod[pod])
}

// Has reports whether a pod has a FloatingIP.
func (b *Book) Has(pod types.UID) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.byPod[pod]) > 0
}

// Pods returns the pods with an address of a pool at a location, in no order, some more than once.
func (b *Book) Pods(location networkv1alpha1.IPPoolLocation) (pods []types.NamespacedName) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, addresses := range b.byPod {
		for address := range addresses {
			f := b.ips[address]
			if s := b.pools[f.Spec.Pool]; s != nil && s.Location == location {
				pods = append(pods, types.NamespacedName{Namespace: f.Spec.Holder.Namespace, Name: f.Spec.Holder.Pod})
			}
		}
	}
	return pods
}

// OfWorkload returns the FloatingIPs of a workload, IPv4 first, by their index. They must not be changed.
func (b *Book) OfWorkload(w Workload) []*networkv1alpha1.FloatingIP {
	b.mu.Lock()
	defer b.mu.Unlock()
	if of := b.byWork[w]; of != nil {
		return b.sorted(of.all)
	}
	return nil
}

// Get returns an address' FloatingIP, or nil. It must not be changed.
func (b *Book) Get(address netip.Addr) *networkv1alpha1.FloatingIP {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.ips[address]
}

// InPool returns the FloatingIPs of a pool, by address. They must not be changed.
func (b *Book) InPool(pool string) (found []*networkv1alpha1.FloatingIP) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.pools[pool]
	if s == nil {
		return nil
	}
	return b.byAddress(s.all)
}

// byAddress returns the FloatingIPs of addresses, by address.
func (b *Book) byAddress(addresses map[netip.Addr]struct{}) (found []*networkv1alpha1.FloatingIP) {
	var entries []entry
	for address := range addresses {
		entries = append(entries, entry{b.ips[address], address})
	}
	slices.SortFunc(entries, func(x, y entry) int { return x.address.Compare(y.address) })
	for _, e := range entries {
		found = append(found, e.FloatingIP)
	}
	return found
}

func (b *Book) sorted(addresses map[netip.Addr]struct{}) (found []*networkv1alpha1.FloatingIP) {
	entries := make([]entry, 0, len(addresses))
	for a := range addresses {
		entries = append(entries, entry{b.ips[a], a})
	}
	slices.SortFunc(entries, byIndex)
	for _, e := range entries {
		found = append(found, e.FloatingIP)
	}
	return found
}

func one(is bool) int {
	if is {
		return 1
	}
	return 0
}
