package resolver

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"sync"
	"time"
)

// Bounds of how long an answer is good for, whatever it says itself.
const (
	// MinTTL keeps a name that answers with 0 from being asked for all the time.
	MinTTL = 5 * time.Second
	// MaxTTL bounds how long a change may go unnoticed.
	MaxTTL = 30 * time.Minute
	// absentTTL is how long it is believed that there is no address.
	absentTTL = 30 * time.Second
	// Failures are asked again after firstRetry, doubled up to lastRetry.
	firstRetry, lastRetry = 5 * time.Second, time.Minute
)

// ErrAbsent says that the name servers answered, and that there is no address.
var ErrAbsent = errors.New("no such name, or no address")

// Answer is what name servers say.
type Answer struct {
	Addresses []netip.Addr
	// TTL is how long that is good for.
	TTL time.Duration
}

// Lookup asks for both families. An error may come with those addresses that were found all the same; its text is the same each time.
type Lookup func(ctx context.Context, name string) (Answer, error)

// Names remembers the answers. Each name is asked for once, however many want to know.
type Names struct {
	lookup Lookup
	now    func() time.Time

	mu    sync.Mutex
	names map[string]*entry
}

// entry is a name between two questions.
type entry struct {
	addresses map[netip.Addr]held
	next      time.Time // when to ask again; zero: it was never asked for
	failures  int
	err       error
}

// held is an address that an answer had.
type held struct {
	ttl time.Duration // of that answer; 0: unknown
	// until is when it goes, since a later answer lacks it; zero: it stays. Until then, who asked before that answer may use it.
	until time.Time
}

// New returns names that are asked for with lookup.
func New(lookup Lookup, now func() time.Time) *Names {
	return &Names{lookup: lookup, now: now, names: map[string]*entry{}}
}

// Known returns the addresses of a name as they are known, sorted, whether it was asked for at all, and why the last question failed.
func (n *Names) Known(name string) (addresses []netip.Addr, asked bool, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	e := n.names[name]
	if e == nil {
		return nil, false, nil
	}
	return e.sorted(), !e.next.IsZero(), e.err
}

// Remembers reports whether the name is known or was seeded.
func (n *Names) Remembers(name string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.names[name] != nil
}

// Seed says what was known of a name before this process. It is kept until an answer lacks it.
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

// Forget drops what is known of a name that nobody wants any more.
func (n *Names) Forget(name string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.names, name)
}

// Resolve asks for a name if it is time to, and returns after how long to come back. Two at once for one name ask twice.
func (n *Names) Resolve(ctx context.Context, name string) (again time.Duration) {
	n.mu.Lock()
	e := n.names[name]
	due := e == nil || !n.now().Before(e.next)
	n.mu.Unlock()
	if due {
		answer, err := n.lookup(ctx, name)
		if ctx.Err() != nil && err != nil {
			return firstRetry // it was not the name servers' fault
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

// take learns an answer. Without one everything stays; one without an address says that the others go.
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

// expire drops what has had its time, and returns after how long there is something to do again.
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
