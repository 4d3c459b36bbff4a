package alloc

import (
	"fmt"
	"math"
	"math/big"
	"net/netip"
	"slices"
	"time"

	"go4.org/netipx"

	"github.com/weft-network/weft/pkg/ipam"
)

// Pool describes the addresses of one subnet that owners can have.
type Pool struct {
	Subnet netip.Prefix
	// Whole: there is no router and no host in the subnet, so that their addresses are given too.
	Whole bool
	// Exclude are ranges that no owner gets.
	Exclude []netip.Prefix
	// Leaving: no owner gets an address. Owners keep theirs.
	Leaving bool
}

// bounds returns the first and the last address that can be given if nothing is excluded.
func (p Pool) bounds() netipx.IPRange {
	subnet := p.Subnet.Masked()
	first, last := ipam.FirstPod(subnet), netipx.PrefixLastIP(subnet)
	if p.Whole {
		first = ipam.Gateway(subnet)
	}
	if subnet.Addr().Is4() {
		last = last.Prev() // the broadcast address
	}
	if !first.IsValid() || !last.IsValid() || last.Less(first) || !subnet.Contains(first) {
		return netipx.IPRange{}
	}
	return netipx.IPRangeFrom(first, last)
}

func (p Pool) equal(other Pool) bool {
	return p.Subnet == other.Subnet && p.Whole == other.Whole && p.Leaving == other.Leaving && slices.Equal(p.Exclude, other.Exclude)
}

// ranges returns the addresses that can be given, in order.
func (p Pool) ranges() []netipx.IPRange {
	bounds := p.bounds()
	if !bounds.IsValid() {
		return nil
	}
	if len(p.Exclude) == 0 {
		return []netipx.IPRange{bounds}
	}
	var b netipx.IPSetBuilder
	b.AddRange(bounds)
	for _, excluded := range p.Exclude {
		b.RemovePrefix(excluded)
	}
	set, err := b.IPSet()
	if err != nil {
		return nil
	}
	return set.Ranges()
}

// count returns the number of addresses in ranges, at most math.MaxInt64.
func count(ranges []netipx.IPRange) int64 {
	total := new(big.Int)
	for _, r := range ranges {
		from, to := r.From().As16(), r.To().As16()
		size := new(big.Int).Sub(new(big.Int).SetBytes(to[:]), new(big.Int).SetBytes(from[:]))
		total.Add(total, size.Add(size, big.NewInt(1)))
	}
	if !total.IsInt64() {
		return math.MaxInt64
	}
	return total.Int64()
}

// pool holds the addresses of one subnet.
type pool struct {
	subnet   netip.Prefix
	leaving  bool
	ranges   []netipx.IPRange         // that can be given, in order
	size     int64                    // of ranges
	bounds   netipx.IPRange           // of ranges and of what is excluded between them
	used     map[netip.Addr]Owner     // address -> owner
	reserved map[netip.Addr]string    // address -> reservation that gets it when its owner releases it
	resting  map[netip.Addr]time.Time // freed address -> time of release
	queue    []netip.Addr             // resting addresses, oldest first; may contain addresses that no longer rest
	next     netip.Addr               // where the search for an unused address continues
}

func newPool(of Pool) *pool {
	p := &pool{subnet: of.Subnet, used: map[netip.Addr]Owner{}, reserved: map[netip.Addr]string{},
		resting: map[netip.Addr]time.Time{}}
	p.describe(of)
	return p
}

// describe sets which addresses can be given. Addresses in use stay in use.
func (p *pool) describe(of Pool) {
	p.ranges, p.bounds, p.leaving = of.ranges(), of.bounds(), of.Leaving
	p.size = count(p.ranges)
	if !p.has(p.next) && len(p.ranges) > 0 {
		p.next = p.ranges[0].From()
	}
}

// has reports whether an address can be given.
func (p *pool) has(address netip.Addr) bool {
	return slices.ContainsFunc(p.ranges, func(r netipx.IPRange) bool { return r.Contains(address) })
}

// after returns the address behind one in the pool's order; behind the last comes the first.
func (p *pool) after(address netip.Addr) netip.Addr {
	for i, r := range p.ranges {
		switch {
		case !r.Contains(address):
		case address != r.To():
			return address.Next()
		default:
			return p.ranges[(i+1)%len(p.ranges)].From()
		}
	}
	return p.ranges[0].From()
}

// take assigns an address that is unused or has rested long enough. With rested false, it assigns the address that
// has rested longest. It assigns no address of avoid.
func (p *pool) take(owner Owner, now time.Time, rested bool, avoid []netip.Addr) (netip.Addr, bool) {
	if int64(len(p.used)) >= p.size && within(p, p.used) >= p.size {
		return netip.Addr{}, false
	}
	p.wake(now)
	address, ok := p.fresh(avoid)
	if !ok && !rested {
		address, ok = p.oldest(avoid)
	}
	if ok {
		p.used[address] = owner
	}
	return address, ok
}

// wake ends the quarantine of addresses that were freed long enough ago.
func (p *pool) wake(now time.Time) {
	for len(p.queue) > 0 {
		since, resting := p.resting[p.queue[0]]
		if resting && now.Sub(since) < Quarantine {
			return
		}
		delete(p.resting, p.queue[0])
		p.queue = p.queue[1:]
	}
}

// within counts the addresses that can be given. Others were, before they were excluded.
func within[V any](p *pool, addresses map[netip.Addr]V) (n int64) {
	for address := range addresses {
		if p.has(address) {
			n++
		}
	}
	return n
}

// fresh searches the subnet cyclically for an address that is neither used nor resting.
func (p *pool) fresh(avoid []netip.Addr) (netip.Addr, bool) {
	if int64(len(p.used)+len(p.resting)) >= p.size && within(p, p.used)+within(p, p.resting) >= p.size {
		return netip.Addr{}, false
	}
	for range len(p.used) + len(p.resting) + len(avoid) + 1 {
		address := p.next
		p.next = p.after(address)
		_, used := p.used[address]
		_, resting := p.resting[address]
		if !used && !resting && !slices.Contains(avoid, address) {
			return address, true
		}
	}
	return netip.Addr{}, false
}

func (p *pool) oldest(avoid []netip.Addr) (netip.Addr, bool) {
	for i, address := range p.queue {
		// It may have been excluded since.
		if _, resting := p.resting[address]; resting && p.has(address) && !slices.Contains(avoid, address) {
			p.queue = slices.Delete(p.queue, i, i+1)
			delete(p.resting, address)
			return address, true
		}
	}
	return netip.Addr{}, false
}

// exhausted says why the pool has no address for a request.
func (p *pool) exhausted(avoid []netip.Addr) error {
	avoided := len(slices.DeleteFunc(slices.Clone(avoid), func(address netip.Addr) bool { return !p.has(address) }))
	if avoided == 0 {
		return fmt.Errorf("no free address in %s, all %d are in use", p.subnet, p.size)
	}
	return fmt.Errorf("no free address in %s: all %d are in use, or hosts of the segment answer for them (%d)", p.subnet, p.size, avoided)
}

// claim marks an address as used.
func (p *pool) claim(address netip.Addr, owner Owner) {
	delete(p.resting, address)
	p.used[address] = owner
	if !address.Less(p.next) && p.has(address.Next()) {
		// continue behind existing addresses, so that a restart does not reuse an address that was just freed
		p.next = address.Next()
	}
}

// giveBack undoes the assignment of an address that nobody has used.
func (p *pool) giveBack(address netip.Addr) {
	if name, reserved := p.reserved[address]; reserved {
		p.used[address] = Owner(name)
		return
	}
	delete(p.used, address)
}

// rest frees an address, or returns it to its reservation.
func (p *pool) rest(address netip.Addr, now time.Time) {
	if p.giveBack(address); p.used[address] != "" {
		return
	}
	p.resting[address] = now
	p.queue = append(p.queue, address)
}
