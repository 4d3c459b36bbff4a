package floating

import (
	"fmt"
	"net/netip"
	"reflect"
	"slices"
)

// Faults compares every index of the book with a recomputed index, and returns the differences.
func (b *Book) Faults() (faults []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	fresh := NewBook()
	for _, f := range b.ips {
		fresh.Observe(f)
	}
	if !reflect.DeepEqual(b.byPod, fresh.byPod) || !reflect.DeepEqual(b.byWork, fresh.byWork) {
		faults = append(faults, fmt.Sprintf("by pod %v, by workload %v; counted again %v, %v", b.byPod, b.byWork, fresh.byPod, fresh.byWork))
	}
	for name, s := range b.pools {
		if s.known {
			fresh.SetPool(s.Pool, s.refused)
		}
		c := fresh.shelf(name)
		equal := func(x, y []vacancy) bool { return slices.Equal(x, y) }
		if s.used != c.used || s.kept != c.kept || !slices.Equal(s.taken, c.taken) || !slices.EqualFunc(s.free, c.free, equal) {
			faults = append(faults, fmt.Sprintf("pool %s: used %d kept %d taken %v free %v; counted again %d %d %v %v",
				name, s.used, s.kept, s.taken, s.free, c.used, c.kept, c.taken, c.free))
		}
		if !reflect.DeepEqual(s.all, c.all) || !reflect.DeepEqual(s.outside, c.outside) || s.inside != c.inside {
			faults = append(faults, fmt.Sprintf("pool %s: all %v, outside %v, inside %v; counted again %v, %v, %v",
				name, s.all, s.outside, s.inside, c.all, c.outside, c.inside))
		}
		for i, segment := range s.Segments {
			for a := segment.First; a != s.next[i] && segment.Contains(a); a = a.Next() {
				if b.ips[a] == nil {
					faults = append(faults, fmt.Sprintf("pool %s: the search in %s begins at %s, after %s", name, segment, s.next[i], a))
				}
			}
		}
	}
	return faults
}

// Pending lists the addresses that Reserve gave and Done did not end.
func (b *Book) Pending() (addresses []netip.Addr) {
	for a := range b.pending {
		addresses = append(addresses, a)
	}
	return addresses
}
