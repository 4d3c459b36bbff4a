package alloc

import (
	"maps"
	"slices"
)

// Clone returns an allocator that knows the same and goes its own way: what would be given next can be asked there without
// being given.
func (a *Allocator) Clone() *Allocator {
	a.mu.Lock()
	defer a.mu.Unlock()
	c := &Allocator{now: a.now, nodes: make(map[string]*node, len(a.nodes)), owners: maps.Clone(a.owners), complete: a.complete}
	for name, claims := range a.later {
		if c.later == nil {
			c.later = map[string][]laterClaim{}
		}
		c.later[name] = slices.Clone(claims)
	}
	for name, n := range a.nodes {
		// An Assignment's slices are never changed.
		copied := &node{slots: maps.Clone(n.slots), macs: maps.Clone(n.macs), next: n.next, owners: maps.Clone(n.owners)}
		for _, p := range n.pools {
			copied.pools = append(copied.pools, p.clone())
		}
		c.nodes[name] = copied
	}
	return c
}

func (p *pool) clone() *pool {
	return &pool{subnet: p.subnet, used: maps.Clone(p.used), resting: maps.Clone(p.resting), queue: slices.Clone(p.queue), next: p.next}
}
