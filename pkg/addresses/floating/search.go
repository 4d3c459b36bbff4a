package floating

import (
	"net/netip"
	"slices"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

// free returns an unused address. It prefers the FloatingIP that has been free for the longest time, because clients may
// still send to an address that became free recently.
func (c *chooser) free(index int32, is4 bool) (netip.Addr, bool) {
	if best := c.longestFree(index, is4); best.address.IsValid() {
		return best.address, true
	}
	for i, segment := range c.shelf.Segments {
		if segment.First.Is4() == is4 && c.carries(i) {
			if address, ok := c.unknown(i, index); ok {
				return address, true
			}
		}
	}
	return netip.Addr{}, false
}

// longestFree returns the address with a FloatingIP that is free for the longest time. It notes when only other nodes
// carry a free address.
func (c *chooser) longestFree(index int32, is4 bool) (best vacancy) {
	for i, segment := range c.shelf.Segments {
		switch {
		case segment.First.Is4() != is4 || c.shelf.taken[i] >= c.shelf.sizes[i]:
			continue
		case !c.carries(i):
			c.elsewhere = c.elsewhere || c.overlapsRanges(segment, index)
			continue
		}
		for _, v := range c.shelf.free[i] {
			if c.isChosen(v.address) || !c.inRanges(v.address, index) {
				continue
			}
			if !best.address.IsValid() || byAge(v, best) < 0 {
				best = v
			}
			break
		}
	}
	return best
}

func (c *chooser) overlapsRanges(segment Segment, index int32) bool {
	ranges := c.ranges(index, segment.First.Is4())
	return len(ranges) == 0 || slices.ContainsFunc(ranges, segment.Overlaps)
}

// unknown searches a segment for an address without a FloatingIP, the lowest first.
func (c *chooser) unknown(i int, index int32) (netip.Addr, bool) {
	segment := c.shelf.Segments[i]
	next := c.nextUnknown(c.shelf, i)
	ranges := c.ranges(index, segment.First.Is4())
	if len(ranges) == 0 {
		return c.search(networkv1alpha1.AddressRange{First: next, Last: segment.Last})
	}
	for _, r := range ranges {
		if !r.Overlaps(segment.AddressRange) {
			continue
		}
		common := networkv1alpha1.AddressRange{First: later(r.First, next), Last: earlier(r.Last, segment.Last)}
		if address, ok := c.search(common); ok && next.IsValid() {
			return address, true
		}
	}
	return netip.Addr{}, false
}

// search returns the first address of a range without a FloatingIP.
func (c *chooser) search(r networkv1alpha1.AddressRange) (netip.Addr, bool) {
	for a := r.First; a.IsValid() && a.Compare(r.Last) <= 0; a = a.Next() {
		if c.ips[a] == nil && !c.isChosen(a) {
			return a, true
		}
	}
	return netip.Addr{}, false
}

func later(a, b netip.Addr) netip.Addr {
	if a.Less(b) {
		return b
	}
	return a
}

func earlier(a, b netip.Addr) netip.Addr {
	if b.Less(a) {
		return b
	}
	return a
}
