package alloc

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
)

// isFloating reports whether an address of the assignment is floating.
func (got Assignment) isFloating(address netip.Prefix) bool {
	return slices.Contains(got.Floating, address.Addr())
}

// own returns the addresses that the node gave.
func (got Assignment) own() []netip.Prefix {
	return slices.DeleteFunc(slices.Clone(got.Addresses), got.isFloating)
}

// complete returns the assignment with all its addresses: in the order of the node's families, each with the addresses that the
// node gave or else its floating addresses.
func (got Assignment) complete(families []bool) Assignment {
	own := got.own()
	got.Addresses = nil
	for _, is4 := range families {
		for _, address := range own {
			if address.Addr().Is4() == is4 {
				got.Addresses = append(got.Addresses, address)
			}
		}
		for _, address := range got.Floating {
			if address.Is4() == is4 {
				got.Addresses = append(got.Addresses, netip.PrefixFrom(address, address.BitLen()))
			}
		}
	}
	return got
}

// checkFloating returns an error if floating addresses cannot be combined with what the node gives: an address of a
// family that the node does not have or that is requested twice, or an address of the node's own subnets.
func (n *node) checkFloating(floating, requested []netip.Addr) error {
	for i, address := range floating {
		same := func(a netip.Addr) bool { return a.Is4() == address.Is4() }
		switch {
		case slices.Contains(floating[:i], address):
			return fmt.Errorf("floating address %s is %w: it is listed twice", address, ErrUnavailable)
		case !slices.Contains(n.allFamilies(), address.Is4()):
			return fmt.Errorf("floating address %s is %w: the node's pods have no addresses of its family", address, ErrUnavailable)
		case slices.ContainsFunc(n.pools, func(p *pool) bool { return p.subnet.Contains(address) }):
			return fmt.Errorf("floating address %s is %w: it is in a subnet of the node, %s", address, ErrUnavailable, n.subnets())
		case slices.ContainsFunc(requested, same):
			return fmt.Errorf("floating address %s is %w: another of its family is requested too", address, ErrUnavailable)
		}
	}
	return nil
}

// floats reports whether one of the addresses is IPv4 or IPv6.
func floats(floating []netip.Addr, is4 bool) bool {
	return slices.ContainsFunc(floating, func(a netip.Addr) bool { return a.Is4() == is4 })
}

// Hold records that a port has floating addresses, until Release of its owner or HoldOnly. Of two ports with an address,
// the first holds it. Hold returns the addresses that other owners hold. Allocate holds what it gives.
func (a *Allocator) Hold(owner Owner, floating []netip.Addr) (others []netip.Addr) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.hold(owner, floating)
}

// HoldOnly ends an owner's holds of all addresses except the given ones. It returns the addresses that the owner does
// not hold any more.
func (a *Allocator) HoldOnly(owner Owner, floating []netip.Addr) (ended []netip.Addr) {
	a.mu.Lock()
	defer a.mu.Unlock()
	var left []netip.Addr // a new slice, because a clone may have the old one
	for _, address := range a.held[owner] {
		if slices.Contains(floating, address) {
			left = append(left, address)
			continue
		}
		ended = append(ended, address)
		delete(a.holder, address)
	}
	if len(ended) > 0 {
		a.held[owner] = left
	}
	if len(left) == 0 {
		delete(a.held, owner)
	}
	return ended
}

func (a *Allocator) hold(owner Owner, floating []netip.Addr) (others []netip.Addr) {
	for _, address := range floating {
		if other, held := a.holder[address]; held {
			if other != owner {
				others = append(others, address)
			}
			continue
		}
		if a.holder == nil {
			a.holder, a.held = map[netip.Addr]Owner{}, map[Owner][]netip.Addr{}
		}
		a.holder[address] = owner
		a.held[owner] = append(a.held[owner], address)
	}
	return others
}

// Held returns the floating addresses that an owner holds.
func (a *Allocator) Held(owner Owner) []netip.Addr {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.held[owner])
}

// HeldAddresses returns the floating addresses that ports have, in no order.
func (a *Allocator) HeldAddresses() []netip.Addr {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Collect(maps.Keys(a.holder))
}

// drop ends all holds of an owner.
func (a *Allocator) drop(owner Owner) {
	for _, address := range a.held[owner] {
		delete(a.holder, address)
	}
	delete(a.held, owner)
}

// checkHeld returns an error if another owner holds a floating address.
func (a *Allocator) checkHeld(owner Owner, floating []netip.Addr) error {
	for _, address := range floating {
		if other, held := a.holder[address]; held && other != owner {
			return fmt.Errorf("floating address %s is %w: the port of %s still has it", address, ErrUnavailable, string(other))
		}
	}
	return nil
}
