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

// EveryNode is the node of addresses that do not depend on a node.
const EveryNode = "*"

// errorOf names the node of an error.
func errorOf(nodeName string, err error) error {
	if nodeName == EveryNode {
		return err
	}
	return fmt.Errorf("node %s: %w", nodeName, err)
}

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
	owners map[Owner]string        // owner -> node
	later  map[string][]laterClaim // node without subnets -> claims, in order
	// reservations has the addresses that are kept for requests, by the reservation's name.
	reservations map[string][]netip.Addr
	// holder and held have the floating addresses of ports, own and translated: address -> owner, owner -> addresses.
	holder map[netip.Addr]Owner
	held   map[Owner][]netip.Addr

	complete bool
}

type node struct {
	described []Pool // of pools

	pools  []*pool
	slots  map[int]Owner    // slot -> owner
	macs   map[string]Owner // requested MAC -> owner; MACs derived from addresses are as unique as these
	next   int
	owners map[Owner]Assignment

	lacking  map[bool]bool  // families, true for IPv4, in which the last request found no address -> NewlyLacking is due
	outdated map[Owner]bool // owners whose addresses differ from a new owner's
}

// New returns an empty allocator. now is time.Now except in tests.
func New(now func() time.Time) *Allocator {
	return &Allocator{now: now, nodes: map[string]*node{}, owners: map[Owner]string{}}
}

func emptyNode() *node {
	return &node{slots: map[int]Owner{}, macs: map[string]Owner{}, next: FirstSlot, owners: map[Owner]Assignment{},
		lacking: map[bool]bool{}, outdated: map[Owner]bool{}}
}

// SetNode sets the subnets of a node, and which of them are leaving. Addresses in subnets that stay are kept. Owners with
// an address in a removed subnet lose their assignment and are returned in dropped, sorted. outdated are the owners whose
// addresses differ now from a new owner's, and did not before, sorted.
func (a *Allocator) SetNode(name string, subnets, leaving []netip.Prefix) (dropped, outdated []Owner) {
	pools := make([]Pool, 0, len(subnets))
	for _, subnet := range subnets {
		pools = append(pools, Pool{Subnet: subnet, Leaving: slices.Contains(leaving, subnet)})
	}
	return a.setPools(name, pools)
}

// SetPools is SetNode for subnets that are described. An address in use that the description excludes now stays in use.
func (a *Allocator) SetPools(name string, described []Pool) (dropped []Owner) {
	dropped, _ = a.setPools(name, described)
	return dropped
}

func (a *Allocator) setPools(name string, described []Pool) (dropped, outdated []Owner) {
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
func (a *Allocator) RemoveNode(name string) (owners []Owner) {
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
func (a *Allocator) Get(owner Owner) (nodeName string, got Assignment, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	nodeName, ok = a.owners[owner]
	if ok {
		got = a.nodes[nodeName].owners[owner]
	}
	return nodeName, got, ok
}

// Owners lists the owners on a node, sorted.
func (a *Allocator) Owners(nodeName string) []Owner {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.nodes[nodeName] == nil {
		return nil
	}
	var owners []Owner
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
