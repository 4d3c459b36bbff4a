package alloc

import (
	"net/netip"
	"slices"
)

// laterClaim is an owner's assignment on a node whose subnets are not known yet.
type laterClaim struct {
	owner     Owner
	addresses []netip.Addr
	want      Assignment // without addresses
}

// ClaimLater claims addresses for an owner as soon as its node has subnets, before any other allocation there.
// Addresses that are not in these subnets or belong to another owner are not claimed. It does nothing if the node has
// subnets already.
func (a *Allocator) ClaimLater(nodeName string, owner Owner, addresses []netip.Addr, want Assignment) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.nodes[nodeName] != nil {
		return
	}
	if a.later == nil {
		a.later = map[string][]laterClaim{}
	}
	a.later[nodeName] = append(a.later[nodeName], laterClaim{owner, addresses, want})
}

// Awaits reports whether an owner has a claim on a node whose subnets are not known yet.
func (a *Allocator) Awaits(owner Owner) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, claims := range a.later {
		if slices.ContainsFunc(claims, func(c laterClaim) bool { return c.owner == owner }) {
			return true
		}
	}
	return false
}

// AwaitedAddresses returns the addresses that are claimed on nodes without subnets: node -> addresses.
func (a *Allocator) AwaitedAddresses() map[string][]netip.Addr {
	a.mu.Lock()
	defer a.mu.Unlock()
	all := map[string][]netip.Addr{}
	for name, claims := range a.later {
		for _, c := range claims {
			all[name] = append(all[name], c.addresses...)
		}
	}
	return all
}

// claimAwaited applies the claims on a node. If an owner has several claims, the first valid claim wins.
func (a *Allocator) claimAwaited(nodeName string, n *node) {
	for _, c := range a.later[nodeName] {
		if _, has := a.owners[c.owner]; has {
			continue
		}
		want := c.want
		own := slices.DeleteFunc(slices.Clone(c.addresses), func(x netip.Addr) bool { return slices.Contains(want.Floating, x) })
		if want.Addresses = n.inSubnets(own); len(want.Addresses) < len(own) {
			continue // the owner gets another address when it is reconciled
		}
		_, _ = a.claim(nodeName, n, c.owner, want) // on an error the owner gets another address when it is reconciled
	}
	delete(a.later, nodeName)
}

// forgetAwaited drops the claims on a node and returns their owners.
func (a *Allocator) forgetAwaited(nodeName string) (owners []Owner) {
	for _, c := range a.later[nodeName] {
		owners = append(owners, c.owner)
	}
	delete(a.later, nodeName)
	slices.Sort(owners)
	return slices.Compact(owners)
}

// forgetAwaiting drops the claims of an owner.
func (a *Allocator) forgetAwaiting(owner Owner) {
	for nodeName, claims := range a.later {
		a.later[nodeName] = slices.DeleteFunc(claims, func(c laterClaim) bool { return c.owner == owner })
	}
}
