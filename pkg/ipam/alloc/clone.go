package alloc

import (
	"maps"
	"slices"
)

// Clone returns an independent copy. Allocating from the copy does not change the original.
func (a *Allocator) Clone() *Allocator {
	c := &Allocator{}
	a.CopyTo(c)
	return c
}

// CopyTo makes c a clone. c must not be in use yet.
func (a *Allocator) CopyTo(c *Allocator) {
	a.mu.Lock()
	defer a.mu.Unlock()
	c.now, c.owners, c.complete = a.now, maps.Clone(a.owners), a.complete
	c.nodes = make(map[string]*node, len(a.nodes))
	for name, claims := range a.later {
		if c.later == nil {
			c.later = map[string][]laterClaim{}
		}
		c.later[name] = slices.Clone(claims)
	}
	c.reservations = maps.Clone(a.reservations) // addresses are immutable
	c.holder, c.held = maps.Clone(a.holder), maps.Clone(a.held)
	for owner := range c.held {
		c.held[owner] = slices.Clip(c.held[owner])
	}
	for name, n := range a.nodes {
		// An Assignment's slices are immutable.
		copied := &node{slots: maps.Clone(n.slots), macs: maps.Clone(n.macs), next: n.next,
			owners: maps.Clone(n.owners), described: n.described, lacking: maps.Clone(n.lacking), outdated: maps.Clone(n.outdated)}
		for _, p := range n.pools {
			copied.pools = append(copied.pools, p.clone())
		}
		c.nodes[name] = copied
	}
}

func (p *pool) clone() *pool {
	return &pool{subnet: p.subnet, leaving: p.leaving, ranges: slices.Clone(p.ranges), size: p.size,
		bounds: p.bounds, used: maps.Clone(p.used), reserved: maps.Clone(p.reserved), resting: maps.Clone(p.resting),
		queue: slices.Clone(p.queue), next: p.next}
}
