package alloc

import (
	"fmt"
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
		case !slices.Contains(n.families(), address.Is4()):
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
