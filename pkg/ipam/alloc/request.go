package alloc

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/weft-network/weft/pkg/ipam"
)

// Request is what an owner asks for; the zero value asks for nothing.
type Request struct {
	// Addresses are at most one per family.
	Addresses []netip.Addr
	// MAC is one that ipam.CheckMAC accepts, or the one that follows from the addresses.
	MAC net.HardwareAddr
}

// available says why the requested addresses cannot be given: one that no pod of the node can have, one that is in use, or two of
// one family.
func (n *node) available(owner string, requested []netip.Addr) error {
	for i, address := range requested {
		p := n.holderOf(address)
		if p == nil {
			return fmt.Errorf("requested address %s is %w: no pod can have it in %s", address, ErrUnavailable, n.subnets())
		}
		if other, used := p.used[address]; used && other != owner {
			return fmt.Errorf("requested address %s is %w: it is in use", address, ErrUnavailable)
		}
		if slices.ContainsFunc(requested[:i], func(o netip.Addr) bool { return o.Is4() == address.Is4() }) {
			return fmt.Errorf("requested address %s is %w: another of its family is requested too", address, ErrUnavailable)
		}
	}
	return nil
}

// takeOne gives the requested address of a family, which is available, or chooses one. A requested address need not rest: whoever
// asks for it by name wants the very address that was there before.
func (n *node) takeOne(is4 bool, owner string, now time.Time, requested []netip.Addr) (netip.Prefix, error) {
	i := slices.IndexFunc(requested, func(address netip.Addr) bool { return address.Is4() == is4 })
	if i < 0 {
		return n.takeAddress(is4, owner, now)
	}
	p := n.holderOf(requested[i])
	delete(p.resting, requested[i])
	p.used[requested[i]] = owner
	return netip.PrefixFrom(requested[i], p.subnet.Bits()), nil
}

// holderOf is the pool in whose subnet a pod can have the address.
func (n *node) holderOf(address netip.Addr) *pool {
	i := slices.IndexFunc(n.pools, func(p *pool) bool { return ipam.IsPodAddress(p.subnet, address) })
	if i < 0 {
		return nil
	}
	return n.pools[i]
}

func (n *node) subnets() string {
	text := make([]string, 0, len(n.pools))
	for _, p := range n.pools {
		text = append(text, p.subnet.String())
	}
	return strings.Join(text, ", ")
}
