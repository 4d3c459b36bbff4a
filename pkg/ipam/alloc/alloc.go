// Package alloc records the address, MAC and port slot of each pod. It is the only such record. It is derived from
// the database and the API server at each start, and never stored.
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
	// FirstSlot is the first port key of pods on a switch. Lower keys are for infrastructure.
	FirstSlot = 16
	// LastSlot is the largest tunnel key of a logical port.
	LastSlot = 32767
	// Quarantine is how long a freed address stays unused, so that a peer's stale neighbour or connection entry does
	// not lead to another pod. It ends early if no other address is free.
	Quarantine = 60 * time.Second
)

// ErrUnknownNode means that the node has no subnets (yet).
var ErrUnknownNode = errors.New("node has no pod subnets")

// ErrUnavailable means that a requested IP or MAC address is not available. The error that wraps it names the address
// and the reason.
var ErrUnavailable = errors.New("not available")

// Assignment is a pod's assignment on its node's switch.
type Assignment struct {
	// Addresses has one address per family, with the length of their subnet, or the floating addresses of that family,
	// with the length of an address. In a Claim the floating addresses may be left out.
	Addresses []netip.Prefix
	// Floating are the addresses that no subnet of the node has. Only one owner holds one (Hold), on any node.
	Floating []netip.Addr
	MAC      net.HardwareAddr
	// Slot is the tunnel key of the pod's port, FirstSlot..LastSlot. With 0 in a Claim the allocator chooses it. A
	// Claim without a MAC gets the MAC that is derived from its addresses.
	Slot int
}

// Allocator assigns addresses, MACs and slots. It is safe for concurrent use.
type Allocator struct {
	now func() time.Time

	mu     sync.Mutex
	nodes  map[string]*node
	owners map[string]string       // owner -> node
	later  map[string][]laterClaim // node without subnets -> claims, in order
	// reservations has the addresses that are kept for requests, by the reservation's name.
	reservations map[string][]netip.Addr
	// holder and held have the floating addresses of ports, own and translated: address -> owner, owner -> addresses.
	holder map[netip.Addr]string
	held   map[string][]netip.Addr

	complete bool
}

type node struct {
	described []Pool // of pools

	pools  []*pool
	slots  map[int]string    // slot -> owner
	macs   map[string]string // requested MAC -> owner; MACs derived from addresses are as unique as these
	next   int
	owners map[string]Assignment

	lacking  map[bool]bool   // is IPv4 -> the last request found no free address
	outdated map[string]bool // owners whose addresses differ from those that a new owner gets
}

// New returns an empty allocator. now is time.Now except in tests.
func New(now func() time.Time) *Allocator {
	return &Allocator{now: now, nodes: map[string]*node{}, owners: map[string]string{}}
}

func emptyNode() *node {
	return &node{slots: map[int]string{}, macs: map[string]string{}, next: FirstSlot, owners: map[string]Assignment{},
		lacking: map[bool]bool{}, outdated: map[string]bool{}}
}

// SetNode sets the subnets of a node, and which of them are leaving. Addresses in subnets that stay are kept. Owners with
// an address in a removed subnet lose their assignment and are returned in dropped, sorted. outdated are the owners whose
// addresses differ now from those that a new owner gets, and did not before, sorted.
func (a *Allocator) SetNode(name string, subnets, leaving []netip.Prefix) (dropped, outdated []string) {
	pools := make([]Pool, 0, len(subnets))
	for _, subnet := range subnets {
		pools = append(pools, Pool{Subnet: subnet, Leaving: slices.Contains(leaving, subnet)})
	}
	return a.setPools(name, pools)
}

// SetPools is SetNode for subnets that are described. An address in use that the description excludes now stays in use.
func (a *Allocator) SetPools(name string, described []Pool) (dropped []string) {
	dropped, _ = a.setPools(name, described)
	return dropped
}

func (a *Allocator) setPools(name string, described []Pool) (dropped, outdated []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	n := a.nodes[name]
	if n == nil {
		n = emptyNode()
		a.nodes[name] = n
	}
	if len(n.described) > 0 && slices.EqualFunc(n.described, described, Pool.equal) {
		return nil, nil // the usual case: a reconciler describes them before each allocation
	}
	n.described, n.pools = slices.Clone(described), n.poolsOf(described)
	a.markAll()
	a.claimAwaited(name, n)
	for owner, got := range n.owners {
		if !n.holds(got.own()) {
			dropped = append(dropped, owner)
		}
	}
	for _, owner := range dropped {
		a.release(owner)
	}
	slices.Sort(dropped)
	return dropped, n.judgeAll()
}

// poolsOf returns a pool for each description: the present pool of its subnet, or a new one.
func (n *node) poolsOf(described []Pool) []*pool {
	pools := make([]*pool, 0, len(described))
	for _, of := range described {
		i := slices.IndexFunc(n.pools, func(p *pool) bool { return p.subnet == of.Subnet })
		if i < 0 {
			pools = append(pools, newPool(of))
			delete(n.lacking, of.Subnet.Addr().Is4())
			continue
		}
		n.pools[i].describe(of)
		pools = append(pools, n.pools[i])
	}
	return pools
}

// holds reports whether all addresses are in subnets of the node.
func (n *node) holds(addresses []netip.Prefix) bool {
	return !slices.ContainsFunc(addresses, func(address netip.Prefix) bool { return n.poolOf(address) == nil })
}

// RemoveNode removes a node and all its assignments, and returns their owners, sorted.
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

// Complete declares that everything that exists has been claimed. Earlier counts are too small.
func (a *Allocator) Complete() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.complete = true
}

// Get returns the assignment of an owner.
func (a *Allocator) Get(owner string) (nodeName string, got Assignment, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	nodeName, ok = a.owners[owner]
	if ok {
		got = a.nodes[nodeName].owners[owner]
	}
	return nodeName, got, ok
}

// Allocate assigns one address of each family of the node, a MAC and a slot to an owner, or nothing if one of them is
// unavailable. It chooses everything that the request does not specify. An owner that has an assignment on the node
// keeps it, even if the request differs. The error names the subnet or the address, and wraps ipam.ErrExhausted,
// ErrUnknownNode or ErrUnavailable.
func (a *Allocator) Allocate(nodeName, owner string, request Request) (Assignment, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	n := a.nodes[nodeName]
	if n == nil || len(n.pools) == 0 {
		return Assignment{}, fmt.Errorf("node %s: %w", nodeName, ErrUnknownNode)
	}
	if on, ok := a.owners[owner]; ok && on == nodeName && len(n.owners[owner].Addresses) > 0 {
		if len(a.reservations[request.Reservation]) == 0 {
			a.reserveFor(request.Reservation, n.owners[owner])
		}
		return n.owners[owner], nil
	}
	if err := request.require(a.reservations[request.Reservation]); err != nil {
		return Assignment{}, fmt.Errorf("node %s: %w", nodeName, err)
	}
	if err := a.checkHeld(owner, request.Floating); err != nil {
		return Assignment{}, err
	}
	got, err := n.take(owner, a.now(), request)
	if err != nil {
		return Assignment{}, fmt.Errorf("node %s: %w", nodeName, err)
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
func (n *node) take(owner string, now time.Time, request Request) (Assignment, error) {
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
	slot, err := n.freeSlot()
	if err != nil {
		return Assignment{}, err
	}
	got := Assignment{Floating: slices.Clone(request.Floating)}
	for _, is4 := range n.families() {
		if floats(request.Floating, is4) {
			continue
		}
		address, err := n.takeOne(is4, owner, now, request.Addresses)
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

// allFamilies lists the families of all subnets, also of those that are leaving.
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
func (n *node) takeAddress(is4 bool, owner string, now time.Time) (netip.Prefix, error) {
	var tried []error
	for _, rested := range []bool{true, false} {
		tried = nil
		for _, p := range n.pools {
			if p.subnet.Addr().Is4() != is4 || p.leaving {
				continue
			}
			if address, ok := p.take(owner, now, rested); ok {
				delete(n.lacking, is4)
				return netip.PrefixFrom(address, p.subnet.Bits()), nil
			}
			tried = append(tried, fmt.Errorf("no free address in %s, all %d are in use", p.subnet, p.size))
		}
	}
	n.lacking[is4] = true
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

// Claim records an existing assignment of an owner at start. It may lack a family of the node, because the owner is older
// than the family. It fails without a change if an address is not a pod address in a subnet of the node, or if another
// owner has it.
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

// Reclaim is Claim for an assignment of an earlier description, which an owner with a running interface keeps: an address that is
// excluded now, and fewer addresses than the node has families now. What is missing in the assignment stays missing.
func (a *Allocator) Reclaim(nodeName, owner string, want Assignment) (Assignment, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	n := a.nodes[nodeName]
	if n == nil {
		return Assignment{}, fmt.Errorf("node %s: %w", nodeName, ErrUnknownNode)
	}
	if _, ok := a.owners[owner]; ok {
		return Assignment{}, fmt.Errorf("%s has an assignment already", owner)
	}
	families := map[bool]bool{} // is IPv4 -> has one
	for _, address := range want.Addresses {
		if p := n.poolOf(address); p == nil || !p.bounds.Contains(address.Addr()) || families[address.Addr().Is4()] {
			return Assignment{}, fmt.Errorf("node %s: %v are not addresses of a pod in its subnets", nodeName, want.Addresses)
		}
		families[address.Addr().Is4()] = true
	}
	if len(want.Addresses) == 0 {
		return Assignment{}, fmt.Errorf("node %s: %s has no address there", nodeName, owner)
	}
	if err := n.unused(want); err != nil {
		return Assignment{}, fmt.Errorf("node %s: %w", nodeName, err)
	}
	got, err := a.put(nodeName, n, owner, want)
	if err != nil {
		return Assignment{}, fmt.Errorf("node %s: %w", nodeName, err)
	}
	return got, nil
}

// claim is Claim for an owner without an assignment, on a node with subnets.
func (a *Allocator) claim(nodeName string, n *node, owner string, want Assignment) (Assignment, error) {
	if err := n.claimable(want); err != nil {
		return Assignment{}, err
	}
	return a.put(nodeName, n, owner, want)
}

// put records an assignment that was checked.
func (a *Allocator) put(nodeName string, n *node, owner string, want Assignment) (Assignment, error) {
	if want.Slot == 0 {
		slot, err := n.freeSlot()
		if err != nil {
			return Assignment{}, err
		}
		want.Slot = slot
	}
	want = want.complete(n.allFamilies())
	mac, err := n.takeMAC(owner, want.MAC, want.Addresses)
	if err != nil {
		return Assignment{}, err
	}
	for _, address := range want.own() {
		n.poolOf(address).claim(address.Addr(), owner)
	}
	n.slots[want.Slot] = owner
	n.skip(want.Slot)
	want.MAC = mac
	n.owners[owner] = want
	a.owners[owner] = nodeName
	n.judge(owner)
	return want, nil
}

func (n *node) claimable(want Assignment) error {
	if err := n.checkFloating(want.Floating, nil); err != nil {
		return err
	}
	if len(want.own()) == 0 && len(want.Floating) == 0 {
		return errors.New("it has no address")
	}
	for _, is4 := range []bool{true, false} {
		given := 0
		for _, address := range want.own() {
			if address.Addr().Is4() == is4 {
				given++
			}
		}
		switch {
		case given > 0 && floats(want.Floating, is4):
			return fmt.Errorf("%v are addresses of one family, some of them floating", want.Addresses)
		case given > 1:
			return fmt.Errorf("%v are %d addresses of one family", want.Addresses, given)
		}
	}
	for _, address := range want.own() {
		p := n.poolOf(address)
		if p == nil || !p.has(address.Addr()) {
			return fmt.Errorf("%s is not a pod address in its subnets", address)
		}
	}
	return n.unused(want)
}

// unused returns an error if another owner has an address or the slot.
func (n *node) unused(want Assignment) error {
	for _, address := range want.own() {
		p := n.poolOf(address)
		if other, used := p.used[address.Addr()]; used {
			return fmt.Errorf("%s already belongs to %s", address, other)
		}
	}
	if other, used := n.slots[want.Slot]; used {
		return fmt.Errorf("port key %d already belongs to %s", want.Slot, other)
	}
	if want.Slot != 0 && (want.Slot < FirstSlot || want.Slot > LastSlot) {
		return fmt.Errorf("port key %d is not in %d..%d", want.Slot, FirstSlot, LastSlot)
	}
	return nil
}

// Release frees the assignment of an owner and returns its node. ok is false if the owner had none.
func (a *Allocator) Release(owner string) (nodeName string, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.forgetAwaiting(owner)
	a.drop(owner)
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
			delete(n.lacking, address.Addr().Is4())
		}
	}
	delete(n.outdated, owner)
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

// Used counts the addresses in use in all subnets within the network. ok is false before Complete.
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

// Known reports whether Complete was called, so that the addresses in use are known.
func (a *Allocator) Known() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.complete
}

// NodeOf returns the node whose subnets contain one of the addresses, or "".
func (a *Allocator) NodeOf(addresses []netip.Addr) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	for name, n := range a.nodes {
		for _, p := range n.pools {
			if slices.ContainsFunc(addresses, p.subnet.Contains) {
				return name
			}
		}
	}
	return ""
}

// InSubnets returns the addresses that are in subnets of the node, with the length of the subnet.
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
