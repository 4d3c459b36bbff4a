package alloc

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/weft-network/weft/pkg/ipam"
)

// Allocate assigns one address of each family of the node, a MAC and a slot to an owner, or nothing if one of them is
// unavailable. It chooses everything that the request does not specify. An owner that has an assignment on the node
// keeps it, even if the request differs. The error names the subnet or the address, and wraps ipam.ErrExhausted,
// ErrUnknownNode or ErrUnavailable.
func (a *Allocator) Allocate(nodeName string, owner Owner, request Request) (Assignment, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	n := a.nodes[nodeName]
	if n == nil || len(n.pools) == 0 {
		return Assignment{}, errorOf(nodeName, ErrUnknownNode)
	}
	if on, ok := a.owners[owner]; ok && on == nodeName && len(n.owners[owner].Addresses) > 0 {
		if len(a.reservations[request.Reservation]) == 0 {
			a.reserveFor(request.Reservation, n.owners[owner])
		}
		return n.owners[owner], nil
	}
	if err := request.require(a.reservations[request.Reservation]); err != nil {
		return Assignment{}, errorOf(nodeName, err)
	}
	if err := a.checkHeld(owner, request.Floating); err != nil {
		return Assignment{}, err
	}
	got, err := n.take(owner, a.now(), request)
	if err != nil {
		return Assignment{}, errorOf(nodeName, err)
	}
	a.hold(owner, got.Floating)
	a.reserveFor(request.Reservation, got)
	a.release(owner)
	n.owners[owner] = got
	a.owners[owner] = nodeName
	n.judge(owner)
	return got, nil
}

// take chooses a slot and an address of each family.
func (n *node) take(owner Owner, now time.Time, request Request) (Assignment, error) {
	if err := n.available(owner, request); err != nil {
		return Assignment{}, err
	}
	if err := n.checkFloating(request.Floating, request.Addresses); err != nil {
		return Assignment{}, err
	}
	if len(request.MAC) > 0 && floats(request.Floating, true) {
		return Assignment{}, fmt.Errorf("requested MAC %s is %w: a floating IPv4 address determines the MAC", request.MAC, ErrUnavailable)
	}
	// The MAC of an address that only chance would give must not be granted by chance.
	if err := ipam.CheckMAC(request.MAC); len(request.MAC) > 0 && len(request.Addresses) == 0 && err != nil {
		return Assignment{}, fmt.Errorf("requested MAC %s is %w: %w", request.MAC, ErrUnavailable, err)
	}
	families := n.families()
	if len(families) == 0 && len(request.Floating) == 0 {
		return Assignment{}, n.allLeave()
	}
	slot, err := n.freeSlot()
	if err != nil {
		return Assignment{}, err
	}
	got := Assignment{Floating: slices.Clone(request.Floating)}
	for _, is4 := range families {
		if floats(request.Floating, is4) {
			continue
		}
		address, err := n.takeOne(is4, owner, now, request)
		if err != nil {
			n.giveBack(got.Addresses)
			return Assignment{}, err
		}
		got.Addresses = append(got.Addresses, address)
	}
	got = got.complete(n.allFamilies())
	if got.MAC, err = n.takeMAC(owner, request.MAC, got.Addresses); err != nil {
		n.giveBack(got.Addresses)
		return Assignment{}, err
	}
	n.slots[slot] = owner
	got.Slot = slot
	return got, nil
}

// families lists the families in which the node gives addresses, in the order of its subnets: true for IPv4.
func (n *node) families() []bool {
	return familiesOf(slices.DeleteFunc(slices.Clone(n.pools), func(p *pool) bool { return p.leaving }))
}

// allLeave records that a request found no address because no subnet gives any, and returns the error.
func (n *node) allLeave() error {
	var left []string
	for _, p := range n.pools {
		left = append(left, p.subnet.String())
		n.lack(p.subnet.Addr().Is4())
	}
	return fmt.Errorf("%w: no other subnet than %s, which was removed from clusterNetwork", ipam.ErrExhausted, strings.Join(left, ", "))
}

// lack records that a request found no address of a family.
func (n *node) lack(is4 bool) {
	if _, known := n.lacking[is4]; !known {
		n.lacking[is4] = true
	}
}

// allFamilies lists the families of all subnets, also of leaving subnets.
func (n *node) allFamilies() []bool { return familiesOf(n.pools) }

func familiesOf(pools []*pool) []bool {
	var families []bool
	for _, p := range pools {
		if is4 := p.subnet.Addr().Is4(); !slices.Contains(families, is4) {
			families = append(families, is4)
		}
	}
	return families
}

// takeAddress tries the subnets of one family in order: first unused addresses and addresses whose quarantine has
// ended, then addresses in quarantine.
func (n *node) takeAddress(is4 bool, owner Owner, now time.Time, avoid []netip.Addr) (netip.Prefix, error) {
	var tried []error
	for _, rested := range []bool{true, false} {
		tried = nil
		for _, p := range n.pools {
			if p.subnet.Addr().Is4() != is4 || p.leaving {
				continue
			}
			if address, ok := p.take(owner, now, rested, avoid); ok {
				delete(n.lacking, is4)
				return netip.PrefixFrom(address, p.subnet.Bits()), nil
			}
			tried = append(tried, p.exhausted(avoid))
		}
	}
	n.lack(is4)
	return netip.Prefix{}, fmt.Errorf("%w: %w", ipam.ErrExhausted, errors.Join(tried...))
}

func (n *node) giveBack(addresses []netip.Prefix) {
	for _, address := range addresses {
		if p := n.poolOf(address); p != nil {
			p.giveBack(address.Addr())
		}
	}
}

func (n *node) poolOf(address netip.Prefix) *pool {
	for _, p := range n.pools {
		if p.subnet == address.Masked() {
			return p
		}
	}
	return nil
}

// skip moves the search for a free slot behind a slot.
func (n *node) skip(slot int) {
	if slot < n.next || slot > LastSlot {
		return
	}
	if n.next = slot + 1; n.next > LastSlot {
		n.next = FirstSlot
	}
}

// SkipSlot moves a node's next slot behind a slot that is still in the database, because two ports of a switch must
// never request the same tunnel key.
func (a *Allocator) SkipSlot(nodeName string, slot int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if n := a.nodes[nodeName]; n != nil {
		n.skip(slot)
	}
}

// freeSlot searches cyclically, so that a slot is reused as late as possible.
func (n *node) freeSlot() (int, error) {
	for range LastSlot - FirstSlot + 1 {
		slot := n.next
		if n.next++; n.next > LastSlot {
			n.next = FirstSlot
		}
		if _, used := n.slots[slot]; !used {
			return slot, nil
		}
	}
	return 0, fmt.Errorf("%w: all %d port keys are in use", ipam.ErrExhausted, LastSlot-FirstSlot+1)
}
