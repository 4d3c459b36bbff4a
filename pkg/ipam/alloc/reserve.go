package alloc

import (
	"maps"
	"net/netip"
	"slices"
)

// Reserve keeps addresses for the requests that name a reservation, whether or not a subnet has the addresses yet. An
// address that an owner has now becomes the reservation's when the owner releases it. Of two reservations of one
// address, the first wins. Reserve replaces what the reservation had.
func (a *Allocator) Reserve(name string, addresses []netip.Addr) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if slices.Equal(a.reservations[name], addresses) {
		return
	}
	a.unreserve(name)
	if len(addresses) > 0 {
		a.keep(name, slices.Clone(addresses))
	}
}

// Unreserve ends a reservation. Its addresses are free, unless owners have them.
func (a *Allocator) Unreserve(name string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.unreserve(name)
	a.markAll() // another reservation may have waited for an address
}

// Reserved returns the addresses of a reservation; none: it is empty.
func (a *Allocator) Reserved(name string) []netip.Addr {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.reservations[name]
}

// UserOf returns the owner that has one of a reservation's addresses; empty: none.
func (a *Allocator) UserOf(name string) Owner {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, n := range a.nodes {
		for _, address := range a.reservations[name] {
			if p := n.keeperOf(address); p != nil && p.used[address] != "" && p.used[address] != Owner(name) {
				return p.used[address]
			}
		}
	}
	return ""
}

// Users maps the addresses of the subnets that have an owner or a reservation to what UserOfAddress returns.
func (a *Allocator) Users() map[netip.Addr]Owner {
	a.mu.Lock()
	defer a.mu.Unlock()
	users := map[netip.Addr]Owner{}
	for _, n := range a.nodes {
		for _, p := range n.pools {
			for address, name := range p.reserved {
				users[address] = Owner(name)
			}
			maps.Copy(users, p.used)
		}
	}
	return users
}

// UserOfAddress returns the owner that has an address, or the reservation that keeps it; empty: none.
func (a *Allocator) UserOfAddress(address netip.Addr) Owner {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, n := range a.nodes {
		if p := n.keeperOf(address); p != nil && p.used[address] != "" {
			return p.used[address]
		}
	}
	return ""
}

// reserveFor makes an assignment a reservation's, unless the reservation has as many addresses. It has fewer if it is
// new, or if the subnets have got another family since.
func (a *Allocator) reserveFor(name string, got Assignment) {
	own := got.own()
	if name == "" || len(a.reservations[name]) >= len(own) {
		return
	}
	var addresses []netip.Addr
	for _, address := range own {
		addresses = append(addresses, address.Addr())
	}
	a.keep(name, addresses)
}

// ReservationsOf returns the reservations of an owner's addresses.
func (a *Allocator) ReservationsOf(owner Owner) (names []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	n := a.nodes[a.owners[owner]]
	if n == nil {
		return nil
	}
	for _, address := range n.owners[owner].Addresses {
		if p := n.poolOf(address); p != nil && p.reserved[address.Addr()] != "" {
			names = append(names, p.reserved[address.Addr()])
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func (a *Allocator) keep(name string, addresses []netip.Addr) {
	if a.reservations == nil {
		a.reservations = map[string][]netip.Addr{}
	}
	a.reservations[name] = addresses
	a.mark(name)
}

// markAll marks the addresses of all reservations, in the order of their names.
func (a *Allocator) markAll() {
	for _, name := range slices.Sorted(maps.Keys(a.reservations)) {
		a.mark(name)
	}
}

// mark marks a reservation's addresses in the subnets that exist.
func (a *Allocator) mark(name string) {
	for _, address := range a.reservations[name] {
		for _, n := range a.nodes {
			if p := n.keeperOf(address); p != nil {
				p.reserve(address, name)
			}
		}
	}
}

// keeperOf returns the pool between whose bounds an address is. The address may be excluded: the owner that had it before
// keeps it, and so does its reservation.
func (n *node) keeperOf(address netip.Addr) *pool {
	for _, p := range n.pools {
		if p.bounds.Contains(address) {
			return p
		}
	}
	return nil
}

func (a *Allocator) unreserve(name string) {
	for _, address := range a.reservations[name] {
		for _, n := range a.nodes {
			if p := n.keeperOf(address); p != nil && p.reserved[address] == name {
				delete(p.reserved, address)
				if p.used[address] == Owner(name) {
					p.rest(address, a.now())
				}
			}
		}
	}
	delete(a.reservations, name)
}

// reserve marks a reserved address. Unless an owner has it, the reservation itself counts as its owner.
func (p *pool) reserve(address netip.Addr, name string) {
	if _, other := p.reserved[address]; other {
		return
	}
	p.reserved[address] = name
	if _, used := p.used[address]; !used {
		p.claim(address, Owner(name))
	}
}
