package lbpool

import (
	"fmt"
	"iter"
	"net/netip"
	"slices"
	"strings"
	"time"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

// Use is a Service, or something else, that has an address.
type Use struct {
	// Of names it: "service demo/web".
	Of string
	Sharing
	// Exclusive means that the user is no Service and shares the address with none.
	Exclusive bool
	// Younger means that a Service keeps an address that both have, whatever the ages, as despite an external IP of another Service.
	Younger bool
	// Created is when the Service was created that a load balancer gave the address. An older one keeps an address that both have.
	Created time.Time
	// MAC is that of a foreign host of the segment that has the address. A Service keeps an address despite it, and a pool that no node
	// answers for gives it.
	MAC string
}

// ForeignHost is the Use of an address by a foreign host.
func ForeignHost(mac string) Use {
	return Use{Of: "a host of the nodes' segment with MAC " + mac, Exclusive: true, Younger: true, MAC: mac}
}

// Book maps each address in use to its users. The uses of a Service do not count when it requests an address itself.
type Book map[netip.Addr][]Use

// Add adds an address that a Service gets from a load balancer. The users stay sorted, because messages name the first.
func (b Book) Add(a netip.Addr, r Request) {
	b[a] = append(b[a], Use{Of: r.of(), Sharing: r.Sharing, Created: r.Created})
	slices.SortStableFunc(b[a], func(x, y Use) int { return strings.Compare(x.Of, y.Of) })
}

// others yields the users of an address but the Service itself.
func (b Book) others(a netip.Addr, r Request) iter.Seq[Use] {
	return func(yield func(Use) bool) {
		for _, use := range b[a] {
			if use.Of != r.of() && !yield(use) {
				return
			}
		}
	}
}

// isUnused reports whether nobody but the Service itself has an address.
func (b Book) isUnused(a netip.Addr, r Request) bool {
	for range b.others(a, r) {
		return false
	}
	return true
}

// Assignment is the result for a Service.
type Assignment struct {
	// Addresses has at most one address of each family, IPv4 first. Pools has the pool of each.
	Addresses []netip.Addr
	Pools     []string
	// Reason and Message say why an address is missing. Reason is empty if none is.
	Reason, Message string
	// Chosen are the addresses that the Service does not have yet and gets, or waits for until a node has probed them. Waits means that it
	// waits for at least one.
	Chosen []netip.Addr
	Waits  bool
}

// Served reports whether a pool serves a Service, whether or not it has a free address.
func Served(r Request, pools []Pool) bool {
	return slices.ContainsFunc(pools, func(p Pool) bool { return p.Serves(r) })
}

// Holds reports whether a pool gave one of the current addresses of a Service, which the Service keeps although the pool may not serve it
// any more.
func Holds(current []netip.Addr, pools []Pool) bool {
	return slices.ContainsFunc(pools, func(p Pool) bool { return slices.ContainsFunc(current, p.Gave) })
}

// Assign chooses the addresses of a Service. current are the addresses that it has: it keeps each that a pool gives or
// gave it, unless it requests another. pools are tried in their order. A Service that requests addresses gets those
// or none, so that a client never reaches it at another. While it cannot get what it requests, it keeps what it has.
func Assign(r Request, current []netip.Addr, pools []Pool, book Book) (a Assignment) {
	if r.Pool != "" && !slices.ContainsFunc(pools, func(p Pool) bool { return p.Name == r.Pool }) {
		return Keep(r, current, pools, book, networkv1alpha1.ReasonNoPool, noPool(r))
	}
	named := slices.DeleteFunc(slices.Clone(pools), func(p Pool) bool { return r.Pool != "" && p.Name != r.Pool })
	c := chooser{r, current, serving(r, named), named, book}
	if len(c.pools) == 0 && !Holds(current, named) {
		return Keep(r, current, pools, book, networkv1alpha1.ReasonNoPool, noPool(r))
	}
	var missing []string
	all := r.Every || len(r.Addresses) > 0 // it gets all or none
	for _, is4 := range r.families() {
		address, pool, reason, message := c.choose(is4)
		if (message == "" || reason == networkv1alpha1.ReasonProbing) && !slices.Contains(current, address) {
			a.Chosen = append(a.Chosen, address)
		}
		a.Waits = a.Waits || reason == networkv1alpha1.ReasonProbing
		if message != "" {
			missing = append(missing, message)
			if a.Reason == "" || all && a.Reason == networkv1alpha1.ReasonProbing {
				a.Reason = reason
			}
			continue
		}
		a.Addresses, a.Pools = append(a.Addresses, address), append(a.Pools, pool)
	}
	a.Message = strings.Join(missing, "; ")
	if len(missing) > 0 && (all || len(a.Addresses) == 0) {
		kept := Keep(r, current, pools, book, a.Reason, a.Message)
		if !all || a.Reason == networkv1alpha1.ReasonProbing { // otherwise a probe gives it nothing
			kept.Chosen, kept.Waits = a.Chosen, a.Waits
		}
		return kept
	}
	if len(a.Addresses) > 0 { // PreferDualStack has enough with one
		a.Reason = ""
	}
	a.reportSharing(r, book)
	return a
}

// reportSharing adds to the message the Services that a Service could not share its addresses with if it did not have them already.
func (a *Assignment) reportSharing(r Request, book Book) {
	for _, address := range a.Addresses {
		for use := range book.others(address, r) {
			if why := r.Sharing.across(use); why != "" && r.Sharing.With(use.Sharing) == "" {
				a.Message = strings.TrimPrefix(fmt.Sprintf("%s; %s is shared with %s as before, although %s", a.Message, address, use.Of, why), "; ")
			}
		}
	}
}

// Keep returns the addresses that a Service has and may keep while its request cannot be followed for a reason, and names them. It gives
// none.
func Keep(r Request, current []netip.Addr, pools []Pool, book Book, reason, message string) Assignment {
	a, c := Assignment{Reason: reason, Message: message}, chooser{r, current, serving(r, pools), pools, book}
	var kept []string
	for _, is4 := range r.families() {
		if address, pool, ok := c.kept(is4); ok {
			a.Addresses, a.Pools, kept = append(a.Addresses, address), append(a.Pools, pool), append(kept, address.String())
		}
	}
	if len(kept) > 0 {
		a.Message += "; the Service keeps " + strings.Join(kept, ", ")
	}
	a.reportSharing(r, book)
	return a
}

func serving(r Request, pools []Pool) []Pool {
	return slices.DeleteFunc(slices.Clone(pools), func(p Pool) bool { return !p.Serves(r) })
}

func noPool(r Request) string {
	text := fmt.Sprintf("no LoadBalancerPool serves class %q with the labels of the Service and its namespace", r.Class)
	if r.Class == "" {
		text = "no LoadBalancerPool with servicesWithoutClass serves the labels of the Service and its namespace"
	}
	if r.Pool != "" {
		text += ", and has the requested name " + r.Pool
	}
	return text
}

// chooser chooses one address after the other.
type chooser struct {
	Request
	current []netip.Addr
	// pools serve the Service. named are pools of the requested name, or all, whether they serve it now or did before.
	pools, named []Pool
	book         Book
}

// choose returns the address of a family and its pool, or a reason and a message.
func (c chooser) choose(is4 bool) (address netip.Addr, pool, reason, message string) {
	for _, a := range c.Addresses {
		if a.Is4() == is4 {
			return c.requested(a)
		}
	}
	if a, p, ok := c.kept(is4); ok {
		return a, p, "", ""
	}
	if len(c.pools) == 0 {
		return address, "", networkv1alpha1.ReasonNoPool, noPool(c.Request)
	}
	refused := ""
	for _, p := range c.pools {
		switch {
		case p.Refused != "":
			refused = p.Refused
		case p.AutoAssign || c.Pool == p.Name:
			a, waits, ok := c.firstFree(p, is4)
			if ok && waits {
				return a, p.Name, networkv1alpha1.ReasonProbing,
					fmt.Sprintf("a node probes the segment for an %s address of LoadBalancerPool %s", familyName(is4), p.Name)
			}
			if ok {
				return a, p.Name, "", ""
			}
		}
	}
	if refused != "" {
		refused = "; " + refused
	}
	return address, "", networkv1alpha1.ReasonPoolExhausted,
		fmt.Sprintf("%s: no %s address is free%s", c.poolNames(), familyName(is4), refused)
}

// kept returns the address of a family that the Service has and can keep, and its pool.
func (c chooser) kept(is4 bool) (address netip.Addr, pool string, ok bool) {
	for _, a := range c.current {
		if p, ok := c.poolOf(a); ok && a.Is4() == is4 && c.whyNot(p, a) == "" {
			return a, p.Name, true
		}
	}
	return address, "", false
}

// requested returns a requested address if the Service can have it.
func (c chooser) requested(a netip.Addr) (address netip.Addr, pool, reason, message string) {
	p, ok := c.poolOf(a)
	if !ok {
		message = fmt.Sprintf("requested address %s is not in %s", a, c.poolNames())
	} else if why := c.whyNot(p, a); why != "" {
		message = fmt.Sprintf("requested address %s: %s", a, why)
	} else if p.Refused != "" && !slices.Contains(c.current, a) {
		message = fmt.Sprintf("requested address %s: %s", a, p.Refused)
	} else if !slices.Contains(c.current, a) && c.book.isUnused(a, c.Request) && p.waits(a) {
		return a, p.Name, networkv1alpha1.ReasonProbing, fmt.Sprintf("a node probes the segment for requested address %s", a)
	} else {
		return a, p.Name, "", ""
	}
	return a, "", networkv1alpha1.ReasonAddressUnavailable, message
}

// poolOf returns the pool that gives an address, or that gave it to the Service.
func (c chooser) poolOf(a netip.Addr) (Pool, bool) {
	if i := slices.IndexFunc(c.pools, func(p Pool) bool { return p.Contains(a) }); i >= 0 {
		return c.pools[i], true
	}
	i := slices.IndexFunc(c.named, func(p Pool) bool { return p.Gave(a) })
	if i < 0 || !slices.Contains(c.current, a) {
		return Pool{}, false
	}
	return c.named[i], true
}

// whyNot returns why a Service cannot have an address of a pool. It is empty if the address is free or can be shared.
func (c chooser) whyNot(p Pool, a netip.Addr) string {
	keeps := slices.Contains(c.current, a)
	for use := range c.book.others(a, c.Request) {
		if keeps && c.precedes(use) {
			continue
		}
		if use.MAC != "" && !p.OnSegment {
			continue
		}
		if use.Exclusive {
			return use.Of + " has it"
		}
		why := c.Sharing.With(use.Sharing)
		if why == "" && !keeps { // what both have, they had before their namespaces counted, or when both allowed it
			why = c.Sharing.across(use)
		}
		if why != "" {
			return fmt.Sprintf("%s has it, and %s", use.Of, why)
		}
	}
	return ""
}

// maxAhead is how many addresses of a pool that wait for a probe are passed over in search of an address that does not wait.
const maxAhead = 64

// firstFree returns the first address of a pool that the Service can share, or else the first unused address. An address that waits
// for a probe comes after the others.
func (c chooser) firstFree(p Pool, is4 bool) (found netip.Addr, waits, ok bool) {
	for a := range c.book {
		if a.Is4() == is4 && p.Contains(a) && (!found.IsValid() || a.Less(found)) && !c.book.isUnused(a, c.Request) && c.whyNot(p, a) == "" {
			found = a
		}
	}
	if found.IsValid() {
		return found, false, true
	}
	passed := 0
	for _, r := range p.Ranges {
		for a := r.First; r.First.Is4() == is4 && r.Contains(a) && passed < maxAhead; a = a.Next() {
			if !c.book.isUnused(a, c.Request) {
				continue
			}
			if !p.waits(a) {
				return a, false, true
			}
			if passed++; passed == 1 {
				found = a
			}
		}
	}
	return found, true, passed > 0
}

func (c chooser) poolNames() string {
	var names []string
	for _, p := range c.pools {
		names = append(names, p.Name)
	}
	if len(names) == 0 {
		return "a LoadBalancerPool that serves the Service"
	}
	if len(names) == 1 {
		return "LoadBalancerPool " + names[0]
	}
	return "LoadBalancerPools " + strings.Join(names, ", ")
}

func familyName(is4 bool) string {
	if is4 {
		return "IPv4"
	}
	return "IPv6"
}
