package alloc

import (
	"errors"
	"fmt"
)

// Claim records an existing assignment of an owner at start. It may lack a family of the node, because the owner is older
// than the family. It fails without a change if an address is not a pod address in a subnet of the node, or if another
// owner has it.
func (a *Allocator) Claim(nodeName string, owner Owner, want Assignment) (Assignment, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	n := a.nodes[nodeName]
	if n == nil {
		return Assignment{}, errorOf(nodeName, ErrUnknownNode)
	}
	if _, ok := a.owners[owner]; ok {
		return Assignment{}, fmt.Errorf("%s has an assignment already", owner)
	}
	got, err := a.claim(nodeName, n, owner, want)
	if err != nil {
		return Assignment{}, errorOf(nodeName, err)
	}
	return got, nil
}

// Reclaim is Claim for an assignment of an earlier description, which an owner with a running interface keeps: an address that is
// excluded now, and fewer addresses than the node has families now. What is missing in the assignment stays missing.
func (a *Allocator) Reclaim(nodeName string, owner Owner, want Assignment) (Assignment, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	n := a.nodes[nodeName]
	if n == nil {
		return Assignment{}, errorOf(nodeName, ErrUnknownNode)
	}
	if _, ok := a.owners[owner]; ok {
		return Assignment{}, fmt.Errorf("%s has an assignment already", owner)
	}
	families := map[bool]bool{} // is IPv4 -> has one
	for _, address := range want.Addresses {
		if p := n.poolOf(address); p == nil || !p.bounds.Contains(address.Addr()) || families[address.Addr().Is4()] {
			return Assignment{}, errorOf(nodeName, fmt.Errorf("%v are not addresses of a pod in its subnets", want.Addresses))
		}
		families[address.Addr().Is4()] = true
	}
	if len(want.Addresses) == 0 {
		return Assignment{}, errorOf(nodeName, fmt.Errorf("%s has no address there", owner))
	}
	if err := n.unused(want); err != nil {
		return Assignment{}, errorOf(nodeName, err)
	}
	got, err := a.put(nodeName, n, owner, want)
	if err != nil {
		return Assignment{}, errorOf(nodeName, err)
	}
	return got, nil
}

// claim is Claim for an owner without an assignment, on a node with subnets.
func (a *Allocator) claim(nodeName string, n *node, owner Owner, want Assignment) (Assignment, error) {
	if err := n.claimable(want); err != nil {
		return Assignment{}, err
	}
	return a.put(nodeName, n, owner, want)
}

// put records an assignment that was checked.
func (a *Allocator) put(nodeName string, n *node, owner Owner, want Assignment) (Assignment, error) {
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
			return fmt.Errorf("%s already belongs to %s", address, string(other))
		}
	}
	if other, used := n.slots[want.Slot]; used {
		return fmt.Errorf("port key %d already belongs to %s", want.Slot, string(other))
	}
	if want.Slot != 0 && (want.Slot < FirstSlot || want.Slot > LastSlot) {
		return fmt.Errorf("port key %d is not in %d..%d", want.Slot, FirstSlot, LastSlot)
	}
	return nil
}

// Release frees the assignment of an owner and returns its node. ok is false if the owner had none.
func (a *Allocator) Release(owner Owner) (nodeName string, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.forgetAwaiting(owner)
	a.drop(owner)
	nodeName, ok = a.owners[owner]
	a.release(owner)
	return nodeName, ok
}

func (a *Allocator) release(owner Owner) {
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
