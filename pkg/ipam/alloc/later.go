package alloc

import (
	"net/netip"
	"slices"
)

// laterClaim is what an owner has on a node whose subnets are not known yet.
type laterClaim struct {
	owner     string
	addresses []netip.Addr
	want      Assignment // without addresses
}

// ClaimLater claims addresses for an owner as soon as the subnets of its node are known, before anybody else is given one there; what is
// not in them then, or somebody else's, is nobody's. Where the node is known it does nothing.
func (a *Allocator) ClaimLater(nodeName, owner string, addresses []netip.Addr, want Assignment) {
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
func (a *Allocator) Awaits(owner string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, claims := range a.later {
		if slices.ContainsFunc(claims, func(c laterClaim) bool { return c.owner == owner }) {
			return true
		}
	}
	return false
}

// Awaited lists the nodes that somebody has claims on and whose subnets are not known, sorted.
func (a *Allocator) Awaited() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	var nodes []string
	for name, claims := range a.later {
		if len(claims) > 0 {
			nodes = append(nodes, name)
		}
	}
	slices.Sort(nodes)
	return nodes
}

// claimAwaited gives a node's owners what they claimed before it was known; of several claims of one owner the first that can be given.
func (a *Allocator) claimAwaited(nodeName string, n *node) {
	for _, c := range a.later[nodeName] {
		if _, has := a.owners[c.owner]; has {
			continue
		}
		want := c.want
		want.Addresses = n.inSubnets(c.addresses)
		_, _ = a.claim(nodeName, n, c.owner, want) // else it gets another when it asks
	}
	delete(a.later, nodeName)
}

// forgetAwaited drops the claims on a node and returns whose they were.
func (a *Allocator) forgetAwaited(nodeName string) (owners []string) {
	for _, c := range a.later[nodeName] {
		owners = append(owners, c.owner)
	}
	delete(a.later, nodeName)
	slices.Sort(owners)
	return slices.Compact(owners)
}

// forgetAwaiting drops the claims of an owner.
func (a *Allocator) forgetAwaiting(owner string) {
	for nodeName, claims := range a.later {
		a.later[nodeName] = slices.DeleteFunc(claims, func(c laterClaim) bool { return c.owner == owner })
	}
}
