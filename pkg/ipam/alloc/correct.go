package alloc

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
)

// Correct gives an owner other addresses of its node: the given ones instead of what it has. It keeps its port key, and may lose a
// family, which is younger than the owner then. mac is the requested MAC, or nil. Correct fails without a change if the owner has no
// assignment on the node, or a floating address, or if an address is not a pod address in a subnet of the node or belongs to another
// owner.
func (a *Allocator) Correct(nodeName string, owner Owner, addresses []netip.Prefix, mac net.HardwareAddr) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	n := a.nodes[nodeName]
	if n == nil || a.owners[owner] != nodeName {
		return errorOf(nodeName, fmt.Errorf("%s has no assignment", owner))
	}
	had := n.owners[owner]
	if len(had.Floating) > 0 {
		return errorOf(nodeName, fmt.Errorf("%s has floating addresses", owner))
	}
	want := Assignment{Addresses: slices.Clone(addresses), MAC: mac, Slot: had.Slot}
	a.release(owner)
	if _, err := a.claim(nodeName, n, owner, want); err != nil {
		_, undone := a.put(nodeName, n, owner, had)
		return errorOf(nodeName, errors.Join(err, undone))
	}
	return nil
}
