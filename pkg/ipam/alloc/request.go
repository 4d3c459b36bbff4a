package alloc

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// Request holds an owner's requirements. The zero value has none.
type Request struct {
	// Addresses has at most one address per family.
	Addresses []netip.Addr
	// Floating are the owner's floating addresses, in no subnet of the node. Somebody else gives them. The node gives no
	// address of their families.
	Floating []netip.Addr
	// Reservation is the name of the reservation whose addresses the owner gets. If the reservation is empty, it keeps
	// what the owner gets. Empty: no reservation.
	Reservation string
	// Avoid are addresses that the node does not choose: hosts outside of the cluster have them. They can be requested.
	Avoid []netip.Addr
	// MAC must pass ipam.CheckMAC, or be the MAC that is derived from the addresses.
	MAC net.HardwareAddr
}

// available returns an error if a requested address is not a pod address on the node, is in use, or is the second of
// its family.
func (n *node) available(owner Owner, request Request) error {
	requested := request.Addresses
	for i, address := range requested {
		p := n.holderOf(address)
		if p == nil {
			return fmt.Errorf("requested address %s is %w: no pod can have it in %s", address, ErrUnavailable, n.subnets())
		}
		if other, used := p.used[address]; used && other != owner && (request.Reservation == "" || other != Owner(request.Reservation)) {
			return fmt.Errorf("requested address %s is %w: it is in use", address, ErrUnavailable)
		}
		if slices.ContainsFunc(requested[:i], func(o netip.Addr) bool { return o.Is4() == address.Is4() }) {
			return fmt.Errorf("requested address %s is %w: another of its family is requested too", address, ErrUnavailable)
		}
	}
	return nil
}

// require replaces the requested addresses by the reserved addresses. The error names a requested address that the
// reservation has not.
func (r *Request) require(reserved []netip.Addr) error {
	if len(reserved) == 0 {
		return nil
	}
	for _, address := range r.Addresses {
		if !slices.Contains(reserved, address) {
			return fmt.Errorf("requested address %s is %w: the reservation has %v", address, ErrUnavailable, reserved)
		}
	}
	r.Addresses = reserved
	return nil
}

// takeOne assigns the requested address of a family, which must be available, or chooses an address. A requested
// address need not have rested, because its owner requires exactly that address.
func (n *node) takeOne(is4 bool, owner Owner, now time.Time, request Request) (netip.Prefix, error) {
	requested := request.Addresses
	i := slices.IndexFunc(requested, func(address netip.Addr) bool { return address.Is4() == is4 })
	if i < 0 {
		return n.takeAddress(is4, owner, now, request.Avoid)
	}
	p := n.holderOf(requested[i])
	delete(p.resting, requested[i])
	p.used[requested[i]] = owner
	return netip.PrefixFrom(requested[i], p.subnet.Bits()), nil
}

// holderOf returns the pool that can give the address to a pod.
func (n *node) holderOf(address netip.Addr) *pool {
	i := slices.IndexFunc(n.pools, func(p *pool) bool { return p.has(address) && !p.leaving })
	if i < 0 {
		return nil
	}
	return n.pools[i]
}

func (n *node) subnets() string {
	text := make([]string, 0, len(n.pools))
	for _, p := range n.pools {
		if !p.leaving {
			text = append(text, p.subnet.String())
		}
	}
	return strings.Join(text, ", ")
}
