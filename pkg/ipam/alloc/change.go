package alloc

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// HasNode reports whether a node has subnets.
func (a *Allocator) HasNode(nodeName string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.nodes[nodeName] != nil
}

// Lacking lists the families, true for IPv4, in which the last request on a node found no free address.
func (a *Allocator) Lacking(nodeName string) (families []bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	n := a.nodes[nodeName]
	if n == nil {
		return nil
	}
	requested := n.families()
	if len(requested) == 0 { // every subnet is leaving
		requested = n.allFamilies()
	}
	for _, is4 := range requested {
		if _, lacking := n.lacking[is4]; lacking {
			families = append(families, is4)
		}
	}
	return families
}

// NewlyLacking reports whether Lacking lists a family of a node that it did not list at the previous call. So a request
// that fails again and again is a reason to look for a subnet only once.
func (a *Allocator) NewlyLacking(nodeName string) (some bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	n := a.nodes[nodeName]
	if n == nil {
		return false
	}
	for is4, due := range n.lacking {
		some = some || due
		n.lacking[is4] = false
	}
	return some
}

// Idle lists the leaving subnets of a node in which no address is in use. It is empty before Complete.
func (a *Allocator) Idle(nodeName string) (subnets []netip.Prefix) {
	a.mu.Lock()
	defer a.mu.Unlock()
	n := a.nodes[nodeName]
	if n == nil || !a.complete {
		return nil
	}
	for _, p := range n.pools {
		if p.leaving && len(p.used) == 0 {
			subnets = append(subnets, p.subnet)
		}
	}
	return subnets
}

// IdleNodes lists the nodes with a leaving subnet in which no address is in use, sorted. It is empty before Complete.
func (a *Allocator) IdleNodes() (names []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for name, n := range a.nodes {
		if a.complete && slices.ContainsFunc(n.pools, func(p *pool) bool { return p.leaving && len(p.used) == 0 }) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// Outdated is an owner whose addresses differ from a new owner's.
type Outdated struct {
	Owner Owner
	// Why names the missing families and the addresses that no new owner gets: "it has no IPv6 address".
	Why string
}

// Outdated returns the number of owners whose addresses differ from a new owner's, and the
// first of them, at most limit, sorted.
func (a *Allocator) Outdated(limit int) (total int, first []Outdated) {
	a.mu.Lock()
	defer a.mu.Unlock()
	var owners []Owner
	for _, n := range a.nodes {
		for owner := range n.outdated {
			owners = append(owners, owner)
		}
	}
	slices.Sort(owners)
	for _, owner := range owners[:min(limit, len(owners))] {
		first = append(first, Outdated{owner, a.nodes[a.owners[owner]].why(owner)})
	}
	return len(owners), first
}

// WhyOutdated says how the addresses of an owner differ from a new owner's, or returns "".
func (a *Allocator) WhyOutdated(owner Owner) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	if n := a.nodes[a.owners[owner]]; n != nil {
		return n.why(owner)
	}
	return ""
}

// judge records whether an owner is outdated.
func (n *node) judge(owner Owner) {
	if n.why(owner) == "" {
		delete(n.outdated, owner)
		return
	}
	n.outdated[owner] = true
}

// judgeAll judges all owners, and returns the owners that were not outdated before, sorted.
func (n *node) judgeAll() (news []Owner) {
	for owner := range n.owners {
		was := n.outdated[owner]
		if n.judge(owner); n.outdated[owner] && !was {
			news = append(news, owner)
		}
	}
	slices.Sort(news)
	return news
}

func (n *node) why(owner Owner) string {
	var reasons []string
	got := n.owners[owner]
	for _, is4 := range n.families() {
		if !slices.ContainsFunc(got.Addresses, func(a netip.Prefix) bool { return a.Addr().Is4() == is4 }) {
			reasons = append(reasons, "it has no "+nameOf(is4)+" address")
		}
	}
	for _, address := range got.own() {
		if p := n.poolOf(address); p != nil && p.leaving {
			reasons = append(reasons, fmt.Sprintf("its address %s is in a network that was removed from clusterNetwork", address.Addr()))
		}
	}
	return strings.Join(reasons, ", ")
}

func nameOf(is4 bool) string {
	if is4 {
		return "IPv4"
	}
	return "IPv6"
}
