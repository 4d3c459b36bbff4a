// Package alloc remembers which pod has which address, MAC and port slot. It is the only such memory and is derived from
// the database and the API server at each start, so it is never stored.
package alloc

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/weft-network/weft/pkg/ipam"
)

const (
	// FirstSlot is the first port key of pods on a switch; those below are for infrastructure.
	FirstSlot = 16
	// LastSlot is the largest tunnel key of a logical port.
	LastSlot = 32767
	// Quarantine is how long a freed address rests, so that a peer's stale neighbour or connection entry does not meet
	// another pod. It ends early when nothing else is left.
	Quarantine = 60 * time.Second
)

// ErrUnknownNode says that the node has no subnets (yet).
var ErrUnknownNode = errors.New("node has no pod subnets")

// ErrUnavailable says that an IP or MAC address that was asked for cannot be given; the error that wraps it says which and why.
var ErrUnavailable = errors.New("not available")

// Assignment is what one pod has on its node's switch.
type Assignment struct {
	// Addresses are one per family, with the length of their subnet.
	Addresses []netip.Prefix
	MAC       net.HardwareAddr
	// Slot is the tunnel key of the pod's port, FirstSlot..LastSlot; 0 in a Claim lets the allocator choose. Without a MAC, a Claim
	// has the one that follows from its addresses.
	Slot int
}

// Allocator is safe for concurrent use.
type Allocator struct {
	now func() time.Time

	mu     sync.Mutex
	nodes  map[string]*node
	owners map[string]string       // owner -> node
	later  map[string][]laterClaim // node that is not known yet -> claims, in their order

	complete bool
}

type node struct {
	pools  []*pool
	slots  map[int]string    // slot -> owner
	macs   map[string]string // requested MAC -> owner; those that follow from addresses are as unique as these
	next   int
	owners map[string]Assignment
}

// New returns an empty allocator. now is time.Now but in tests.
func New(now func() time.Time) *Allocator {
	return &Allocator{now: now, nodes: map[string]*node{}, owners: map[string]string{}}
}

// SetNode makes the subnets of a node known. Subnets that are known keep their addresses; who had one of a subnet that the node has
// no more has nothing now, and is returned, sorted.
func (a *Allocator) SetNode(name string, subnets []netip.Prefix) (dropped []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	n := a.nodes[name]
	if n == nil {
		n = &node{slots: map[int]string{}, macs: map[string]string{}, next: FirstSlot, owners: map[string]Assignment{}}
		a.nodes[name] = n
	}
	pools := make([]*pool, 0, len(subnets))
	for _, subnet := range subnets {
		i := slices.IndexFunc(n.pools, func(p *pool) bool { return p.subnet == subnet })
		if i >= 0 {
			pools = append(pools, n.pools[i])
		} else {
			pools = append(pools, newPool(subnet))
		}
	}
	n.pools = pools
	a.claimAwaited(name, n)
	for owner, got := range n.owners {
		if !n.holds(got.Addresses) {
			dropped = append(dropped, owner)
		}
	}
	for _, owner := range dropped {
		a.release(owner)
	}
	slices.Sort(dropped)
	return dropped
}

// holds reports whether all addresses are in subnets of the node.
func (n *node) holds(addresses []netip.Prefix) bool {
	return !slices.ContainsFunc(addresses, func(address netip.Prefix) bool { return n.poolOf(address) == nil })
}

// RemoveNode forgets a node and everything on it, and returns the owners that were on it, sorted.
func (a *Allocator) RemoveNode(name string) (owners []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	owners = a.forgetAwaited(name)
	n := a.nodes[name]
	if n == nil {
		return owners
	}
	for owner := range n.owners {
		owners = append(owners, owner)
		delete(a.owners, owner)
	}
	delete(a.nodes, name)
	slices.Sort(owners)
	return owners
}

// Complete says that everything that exists has been claimed; counts before are too small.
func (a *Allocator) Complete() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.complete = true
}

// Get returns what an owner has.
func (a *Allocator) Get(owner string) (nodeName string, got Assignment, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	nodeName, ok = a.owners[owner]
	if ok {
		got = a.nodes[nodeName].owners[owner]
	}
	return nodeName, got, ok
}

// Allocate gives an owner one address of each family of the node, all or nothing. An owner that has an assignment on the node
// keeps it. The error wraps ipam.ErrExhausted or ErrUnknownNode and names the subnet.
func (a *Allocator) Allocate(nodeName, owner string) (Assignment, error) {
	return a.AllocateRequested(nodeName, owner, Request{})
}

// AllocateRequested is Allocate for an owner that asks for what it shall have; what it does not ask for is chosen. An owner that has an
// assignment on the node keeps it, whatever it asks for now. The error may wrap ErrUnavailable too, and then names the address.
func (a *Allocator) AllocateRequested(nodeName, owner string, request Request) (Assignment, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	n := a.nodes[nodeName]
	if n == nil || len(n.pools) == 0 {
		return Assignment{}, fmt.Errorf("node %s: %w", nodeName, ErrUnknownNode)
	}
	if on, ok := a.owners[owner]; ok && on == nodeName {
		return n.owners[owner], nil
	}
	got, err := n.take(owner, a.now(), request)
	if err != nil {
		return Assignment{}, fmt.Errorf("node %s: %w", nodeName, err)
	}
	a.release(owner)
	n.owners[owner] = got
	a.owners[owner] = nodeName
	return got, nil
}

// take chooses a slot and an address of each family.
func (n *node) take(owner string, now time.Time, request Request) (Assignment, error) {
	if err := n.available(owner, request.Addresses); err != nil {
		return Assignment{}, err
	}
	slot, err := n.freeSlot()
	if err != nil {
		return Assignment{}, err
	}
	var got Assignment
	for _, is4 := range n.families() {
		address, err := n.takeOne(is4, owner, now, request.Addresses)
		if err != nil {
			n.giveBack(got.Addresses)
			return Assignment{}, err
		}
		got.Addresses = append(got.Addresses, address)
	}
	if got.MAC, err = n.takeMAC(owner, request.MAC, got.Addresses); err != nil {
		n.giveBack(got.Addresses)
		return Assignment{}, err
	}
	n.slots[slot] = owner
	got.Slot = slot
	return got, nil
}

// families lists the node's families in the order of its subnets: true for IPv4.
func (n *node) families() []bool {
	var families []bool
	for _, p := range n.pools {
		if is4 := p.subnet.Addr().Is4(); !slices.Contains(families, is4) {
			families = append(families, is4)
		}
	}
	return families
}

// takeAddress tries the subnets of one family in order: rested addresses first, then those that still rest.
func (n *node) takeAddress(is4 bool, owner string, now time.Time) (netip.Prefix, error) {
	var tried []error
	for _, rested := range []bool{true, false} {
		tried = nil
		for _, p := range n.pools {
			if p.subnet.Addr().Is4() != is4 {
				continue
			}
			if address, ok := p.take(owner, now, rested); ok {
				return netip.PrefixFrom(address, p.subnet.Bits()), nil
			}
			tried = append(tried, fmt.Errorf("no free address in %s, all %d are in use", p.subnet, ipam.Capacity(p.subnet)))
		}
	}
	return netip.Prefix{}, fmt.Errorf("%w: %w", ipam.ErrExhausted, errors.Join(tried...))
}

func (n *node) giveBack(addresses []netip.Prefix) {
	for _, address := range addresses {
		if p := n.poolOf(address); p != nil {
			delete(p.used, address.Addr())
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

// skip lets the search for a free slot go on behind one.
func (n *node) skip(slot int) {
	if slot < n.next || slot > LastSlot {
		return
	}
	if n.next = slot + 1; n.next > LastSlot {
		n.next = FirstSlot
	}
}

// SkipSlot lets new assignments of a node have slots behind one that is still in the database: two ports of a switch must never
// ask for the same tunnel key.
func (a *Allocator) SkipSlot(nodeName string, slot int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if n := a.nodes[nodeName]; n != nil {
		n.skip(slot)
	}
}

// freeSlot goes round, so that a slot comes back as late as possible.
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

// Claim gives an owner what it already has, at a start. It fails, and changes nothing, when an address is not a pod's in a
// subnet of the node or when somebody else has it.
func (a *Allocator) Claim(nodeName, owner string, want Assignment) (Assignment, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	n := a.nodes[nodeName]
	if n == nil {
		return Assignment{}, fmt.Errorf("node %s: %w", nodeName, ErrUnknownNode)
	}
	if _, ok := a.owners[owner]; ok {
		return Assignment{}, fmt.Errorf("%s has an assignment already", owner)
	}
	got, err := a.claim(nodeName, n, owner, want)
	if err != nil {
		return Assignment{}, fmt.Errorf("node %s: %w", nodeName, err)
	}
	return got, nil
}

// claim is Claim for an owner that has nothing, on a node that is known.
func (a *Allocator) claim(nodeName string, n *node, owner string, want Assignment) (Assignment, error) {
	if err := n.claimable(want); err != nil {
		return Assignment{}, err
	}
	if want.Slot == 0 {
		slot, err := n.freeSlot()
		if err != nil {
			return Assignment{}, err
		}
		want.Slot = slot
	}
	mac, err := n.takeMAC(owner, want.MAC, want.Addresses)
	if err != nil {
		return Assignment{}, err
	}
	for _, address := range want.Addresses {
		n.poolOf(address).claim(address.Addr(), owner)
	}
	n.slots[want.Slot] = owner
	n.skip(want.Slot)
	want.MAC = mac
	n.owners[owner] = want
	a.owners[owner] = nodeName
	return want, nil
}

func (n *node) claimable(want Assignment) error {
	if got := len(want.Addresses); got != len(n.families()) {
		return fmt.Errorf("%d addresses for %d families", got, len(n.families()))
	}
	for _, address := range want.Addresses {
		p := n.poolOf(address)
		if p == nil || !ipam.IsPodAddress(p.subnet, address.Addr()) {
			return fmt.Errorf("%s is not a pod's address in its subnets", address)
		}
		if other, used := p.used[address.Addr()]; used {
			return fmt.Errorf("%s is already of %s", address, other)
		}
	}
	if other, used := n.slots[want.Slot]; used {
		return fmt.Errorf("port key %d is already of %s", want.Slot, other)
	}
	if want.Slot != 0 && (want.Slot < FirstSlot || want.Slot > LastSlot) {
		return fmt.Errorf("port key %d is not in %d..%d", want.Slot, FirstSlot, LastSlot)
	}
	return nil
}

// Release takes everything back from an owner and returns its node; ok is false if it had nothing.
func (a *Allocator) Release(owner string) (nodeName string, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.forgetAwaiting(owner)
	nodeName, ok = a.owners[owner]
	a.release(owner)
	return nodeName, ok
}

func (a *Allocator) release(owner string) {
	nodeName, ok := a.owners[owner]
	if !ok {
		return
	}
	n := a.nodes[nodeName]
	got := n.owners[owner]
	for _, address := range got.Addresses {
		if p := n.poolOf(address); p != nil {
			p.rest(address.Addr(), a.now())
		}
	}
	delete(n.slots, got.Slot)
	n.giveBackMAC(owner, got.MAC)
	delete(n.owners, owner)
	delete(a.owners, owner)
}

// Owners lists the owners on a node, sorted.
func (a *Allocator) Owners(nodeName string) []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.nodes[nodeName] == nil {
		return nil
	}
	var owners []string
	for owner := range a.nodes[nodeName].owners {
		owners = append(owners, owner)
	}
	slices.Sort(owners)
	return owners
}

// Used counts the addresses in use in all subnets within the network; ok is false before Complete.
func (a *Allocator) Used(network netip.Prefix) (used int64, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, n := range a.nodes {
		for _, p := range n.pools {
			if network.Overlaps(p.subnet) {
				used += int64(len(p.used))
			}
		}
	}
	return used, a.complete
}

// NodeOf returns the node whose subnets hold the addresses; empty if none does.
func (a *Allocator) NodeOf(addresses []netip.Addr) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	for name, n := range a.nodes {
		for _, p := range n.pools {
			if len(addresses) > 0 && p.subnet.Contains(addresses[0]) {
				return name
			}
		}
	}
	return ""
}

// InSubnets gives each address the length of the node's subnet that holds it; others are left out.
func (a *Allocator) InSubnets(nodeName string, addresses []netip.Addr) []netip.Prefix {
	a.mu.Lock()
	defer a.mu.Unlock()
	if n := a.nodes[nodeName]; n != nil {
		return n.inSubnets(addresses)
	}
	return nil
}

func (n *node) inSubnets(addresses []netip.Addr) (found []netip.Prefix) {
	for _, address := range addresses {
		for _, p := range n.pools {
			if p.subnet.Contains(address) {
				found = append(found, netip.PrefixFrom(address, p.subnet.Bits()))
			}
		}
	}
	return found
}
