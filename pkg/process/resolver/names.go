package resolver

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"sync"
	"time"
)

// Bounds of how long an answer is used, whatever its TTL is.
const (
	// MinTTL is the shortest time between two queries of a name, for answers with a TTL of 0.
	MinTTL = 5 * time.Second
	// MaxTTL bounds how long a change may go unnoticed.
	MaxTTL = 30 * time.Minute
	// absentTTL is how long an answer without an address is used.
	absentTTL = 30 * time.Second
	// A failed query is repeated after firstRetry, which doubles up to lastRetry.
	firstRetry, lastRetry = 5 * time.Second, time.Minute
)

// ErrAbsent means that the name servers replied without an address.
var ErrAbsent = errors.New("no such name, or no address")

// Answer is the result of a lookup.
type Answer struct {
	Addresses []netip.Addr
	// TTL is how long the addresses are valid.
	TTL time.Duration
}

// Lookup queries both families. It may return both an error and addresses. The text of the error is the same each
// time.
type Lookup func(ctx context.Context, name string) (Answer, error)

// Names stores the answers. It queries each name once for all its users.
type Names struct {
	lookup Lookup
	now    func() time.Time

	mu    sync.Mutex
	names map[string]*entry
}

// entry is the state of a name between two queries.
type entry struct {
	addresses map[netip.Addr]held
	next      time.Time // when to query again; zero if never queried
	failures  int
	err       error
}

// held is an address from an answer.
type held struct {
	ttl time.Duration // of that answer; 0 if unknown
	// until is when the address expires because a later answer lacks it. Until then, a client that resolved the name
	// before that answer may use it. If it is zero, the address stays.
	until time.Time
}

// New returns Names that queries with lookup.
func New(lookup Lookup, now func() time.Time) *Names {
	return &Names{lookup: lookup, now: now, names: map[string]*entry{}}
}

// Known returns the current addresses of a name, sorted, whether it was ever queried, and the error of the last
// query.
func (n *Names) Known(name string) (addresses []netip.Addr, queried bool, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	e := n.names[name]
	if e == nil {
		return nil, false, nil
	}
	return e.sorted(), !e.next.IsZero(), e.err
}

// Remembers reports whether the name has an entry, from a query or from Seed.
func (n *Names) Remembers(name string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.names[name] != nil
}

// Seed sets the addresses of a name that an earlier process had. They are kept until an answer lacks them.
func (n *Names) Seed(name string, addresses []netip.Addr) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.names[name] != nil {
		return
	}
	e := &entry{addresses: map[netip.Addr]held{}}
	for _, a := range addresses {
		e.addresses[a] = held{}
	}
	n.names[name] = e
}

// Observe sets the addresses of a name with a wildcard, which others observe and nobody queries. err says why they cannot.
func (n *Names) Observe(name string, addresses []netip.Addr, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	e := &entry{addresses: map[netip.Addr]held{}, next: n.now(), err: err}
	for _, a := range addresses {
		e.addresses[a] = held{}
	}
	n.names[name] = e
}

// Forget drops the entry of a name that is no longer needed.
func (n *Names) Forget(name string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.names, name)
}

// Resolve queries a name if a query is due, and returns the time until the next query. Two concurrent calls for one
// name query twice.
func (n *Names) Resolve(ctx context.Context, name string) (again time.Duration) {
	n.mu.Lock()
	e := n.names[name]
	due := e == nil || !n.now().Before(e.next)
	n.mu.Unlock()
	if due {
		answer, err := n.lookup(ctx, name)
		if ctx.Err() != nil && err != nil {
			return firstRetry // the name servers are not the cause
		}
		n.take(name, answer, err)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if e = n.names[name]; e == nil {
		return firstRetry
	}
	return e.expire(n.now())
}

func (n *Names) take(name string, answer Answer, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	e := n.names[name]
	if e == nil {
		e = &entry{addresses: map[netip.Addr]held{}}
		n.names[name] = e
	}
	e.take(answer, err, n.now())
}

// take stores an answer. Addresses that it lacks will expire, unless the query failed with an error other than
// ErrAbsent.
func (e *entry) take(answer Answer, err error, now time.Time) {
	ttl := min(max(answer.TTL, MinTTL), MaxTTL)
	e.err = err
	if errors.Is(err, ErrAbsent) {
		ttl = absentTTL
	} else if err != nil {
		ttl = min(firstRetry<<min(e.failures, 10), lastRetry)
		e.failures++
	}
	if err == nil || errors.Is(err, ErrAbsent) {
		e.failures = 0
		for a, h := range e.addresses {
			if h.until.IsZero() && !slices.Contains(answer.Addresses, a) {
				if h.ttl == 0 {
					h.ttl = ttl
				}
				h.until = now.Add(h.ttl)
				e.addresses[a] = h
			}
		}
	}
	for _, a := range answer.Addresses {
		e.addresses[a] = held{ttl: ttl}
	}
	e.next = now.Add(ttl)
}

// expire drops expired addresses, and returns the time until the next event.
func (e *entry) expire(now time.Time) time.Duration {
	next := e.next
	for a, h := range e.addresses {
		switch {
		case h.until.IsZero():
		case !now.Before(h.until):
			delete(e.addresses, a)
		case h.until.Before(next):
			next = h.until
		}
	}
	return max(next.Sub(now), time.Second)
}

func (e *entry) sorted() []netip.Addr {
	found := make([]netip.Addr, 0, len(e.addresses))
	for a := range e.addresses {
		found = append(found, a)
	}
	slices.SortFunc(found, netip.Addr.Compare)
	return found
}
