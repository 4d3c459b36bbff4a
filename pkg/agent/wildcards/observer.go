package wildcards

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/process/resolver"
)

// ErrFull says that addresses were left out.
var ErrFull = fmt.Errorf("the names have more addresses than %d in total or %d for one; further ones are left out until others expire: "+
	"use names that match less", networkv1alpha1.MaxWildcardAddresses, networkv1alpha1.MaxAddressesOfWildcard)

const (
	// An address stays for its answer's TTL, but at least shortest and at most longest. Clients keep connections, and some
	// keep addresses, for longer than a TTL.
	shortest = time.Hour
	longest  = 24 * time.Hour
	// patience is how long the answer to a query is waited for.
	patience = 30 * time.Second
	// maxQueries bounds the queries that wait for an answer.
	maxQueries = 4096
)

// exchange identifies a query, and the answer to it.
type exchange struct {
	link   int // index of the pod's link
	client netip.AddrPort
	server netip.Addr
	id     uint16
}

// observer has what was observed. Create it with newObserver.
type observer struct {
	mu      sync.Mutex
	names   []string // sorted
	servers []netip.Addr
	queries map[exchange]query
	// leases is until when each address of a name stays.
	leases map[string]map[netip.Addr]time.Time
	count  int // of leases
	full   bool
}

// query is a query whose name matches a wildcard.
type query struct {
	question dnsmessage.Question
	at       time.Time
}

func newObserver() *observer {
	return &observer{queries: map[exchange]query{}, leases: map[string]map[netip.Addr]time.Time{}}
}

// want sets the names and the name servers. Addresses of other names are dropped. A name that comes begins with the
// addresses that an earlier agent reported for it.
func (o *observer) want(names []string, servers []netip.Addr, reported []networkv1alpha1.ObservedWildcard, now time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.servers = servers
	if slices.Equal(o.names, names) {
		return
	}
	before := o.names
	o.names, o.full = names, false // a name that goes makes room
	for name, addresses := range o.leases {
		if !slices.Contains(names, name) {
			o.count -= len(addresses)
			delete(o.leases, name)
		}
	}
	for _, r := range reported {
		if !slices.Contains(names, r.Name) || slices.Contains(before, r.Name) {
			continue
		}
		for _, text := range r.Addresses {
			if a, err := netip.ParseAddr(string(text)); err == nil {
				o.lease(r.Name, a, now.Add(shortest))
			}
		}
	}
}

// take reads a DNS message that crossed a pod's link. sent means that the host sent it to the pod. It reports whether that
// changes what is known.
func (o *observer) take(p packet, sent bool, now time.Time) (changed bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if sent {
		if p.source.Port() == dnsPort && slices.Contains(o.servers, p.source.Addr()) {
			return o.answer(p, now)
		}
	} else if p.destination.Port() == dnsPort && slices.Contains(o.servers, p.destination.Addr()) {
		o.await(p, now)
	}
	return false
}

// await remembers a query if its name matches.
func (o *observer) await(p packet, now time.Time) {
	var parser dnsmessage.Parser
	header, err := parser.Start(p.message)
	if err != nil || header.Response {
		return
	}
	question, err := parser.Question()
	if err != nil || len(o.matches(question.Name.String())) == 0 ||
		question.Type != dnsmessage.TypeA && question.Type != dnsmessage.TypeAAAA {
		return
	}
	if len(o.queries) >= maxQueries {
		o.dropOld(now)
	}
	if len(o.queries) < maxQueries {
		o.queries[exchange{p.link, p.source, p.destination.Addr(), header.ID}] = query{question, now}
	}
}

// dropOld drops queries that got no answer.
func (o *observer) dropOld(now time.Time) {
	for e, q := range o.queries {
		if now.Sub(q.at) > patience {
			delete(o.queries, e)
		}
	}
}

// answer takes the addresses of an answer to a remembered query.
func (o *observer) answer(p packet, now time.Time) (changed bool) {
	if len(p.message) < 2 {
		return false
	}
	e := exchange{p.link, p.destination, p.source.Addr(), uint16(p.message[0])<<8 | uint16(p.message[1])}
	awaited, ok := o.queries[e]
	if !ok {
		return false
	}
	var reply dnsmessage.Message
	if err := reply.Unpack(p.message); err != nil || !reply.Response || reply.Truncated || len(reply.Questions) != 1 ||
		!resolver.Same(reply.Questions[0], awaited.question) {
		return false
	}
	delete(o.queries, e)
	answer, err := resolver.Read(&reply, awaited.question)
	if err != nil || now.Sub(awaited.at) > patience {
		return false
	}
	until := now.Add(min(max(answer.TTL, shortest), longest))
	for _, name := range o.matches(awaited.question.Name.String()) {
		for _, a := range answer.Addresses {
			if a.IsGlobalUnicast() && o.lease(name, a, until) {
				changed = true
			}
		}
	}
	return changed
}

// lease keeps an address of a name until a time, and reports whether that changes what is known.
func (o *observer) lease(name string, a netip.Addr, until time.Time) (changed bool) {
	if _, ok := o.leases[name][a]; ok {
		o.leases[name][a] = until
		return false
	}
	if o.count >= networkv1alpha1.MaxWildcardAddresses || len(o.leases[name]) >= networkv1alpha1.MaxAddressesOfWildcard {
		changed, o.full = !o.full, true
		return changed
	}
	if o.leases[name] == nil {
		o.leases[name] = map[netip.Addr]time.Time{}
	}
	o.leases[name][a] = until
	o.count++
	return true
}

// matches lists the wildcards that match a name.
func (o *observer) matches(name string) (found []string) {
	name = strings.ToLower(strings.TrimSuffix(name, "."))
	for _, wildcard := range o.names {
		if strings.HasSuffix(name, strings.TrimPrefix(wildcard, "*")) {
			found = append(found, wildcard)
		}
	}
	return found
}

// known returns the addresses that stay, in the form of a status, and until when the first of them stays. full means that
// addresses were left out.
func (o *observer) known(now time.Time) (list []networkv1alpha1.ObservedWildcard, until time.Time, full bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, name := range o.names {
		observed := networkv1alpha1.ObservedWildcard{Name: name}
		for _, a := range o.current(name, now) {
			observed.Addresses = append(observed.Addresses, networkv1alpha1.IP(a.String()))
			if lease := o.leases[name][a]; until.IsZero() || lease.Before(until) {
				until = lease
			}
		}
		if len(observed.Addresses) > 0 {
			list = append(list, observed)
		}
	}
	return list, until, o.full
}

// current drops the addresses of a name that do not stay, and returns the others, sorted.
func (o *observer) current(name string, now time.Time) (addresses []netip.Addr) {
	for a, until := range o.leases[name] {
		if now.Before(until) {
			addresses = append(addresses, a)
			continue
		}
		delete(o.leases[name], a)
		o.count--
		o.full = false
	}
	slices.SortFunc(addresses, func(a, b netip.Addr) int { return cmp.Or(cmp.Compare(a.BitLen(), b.BitLen()), a.Compare(b)) })
	return addresses
}
