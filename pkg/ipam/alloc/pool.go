package alloc

import (
	"net/netip"
	"time"

	"github.com/weft-network/weft/pkg/ipam"
)

// pool is the addresses of one subnet.
type pool struct {
	subnet  netip.Prefix
	used    map[netip.Addr]string    // address -> owner
	resting map[netip.Addr]time.Time // freed address -> since when
	queue   []netip.Addr             // resting addresses, oldest first; may name some that rest no more
	next    netip.Addr               // where the search for one that was never used goes on
}

func newPool(subnet netip.Prefix) *pool {
	return &pool{subnet: subnet, used: map[netip.Addr]string{}, resting: map[netip.Addr]time.Time{}, next: ipam.FirstPod(subnet)}
}

// take gives an address that rested long enough or was not used for long; with rested false, the one that rests longest.
func (p *pool) take(owner string, now time.Time, rested bool) (netip.Addr, bool) {
	if int64(len(p.used)) >= ipam.Capacity(p.subnet) {
		return netip.Addr{}, false
	}
	p.wake(now)
	address, ok := p.fresh()
	if !ok && !rested {
		address, ok = p.oldest()
	}
	if ok {
		p.used[address] = owner
	}
	return address, ok
}

// wake ends the rest of addresses that were freed long enough ago.
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

// fresh goes round the subnet for an address that neither is used nor rests.
func (p *pool) fresh() (netip.Addr, bool) {
	if int64(len(p.used)+len(p.resting)) >= ipam.Capacity(p.subnet) {
		return netip.Addr{}, false
	}
	for range len(p.used) + len(p.resting) + 1 {
		address := p.next
		if p.next = address.Next(); !ipam.IsPodAddress(p.subnet, p.next) {
			p.next = ipam.FirstPod(p.subnet)
		}
		_, used := p.used[address]
		_, resting := p.resting[address]
		if !used && !resting {
			return address, true
		}
	}
	return netip.Addr{}, false
}

func (p *pool) oldest() (netip.Addr, bool) {
	for len(p.queue) > 0 {
		address := p.queue[0]
		p.queue = p.queue[1:]
		if _, resting := p.resting[address]; resting {
			delete(p.resting, address)
			return address, true
		}
	}
	return netip.Addr{}, false
}

// claim marks an address as used.
func (p *pool) claim(address netip.Addr, owner string) {
	delete(p.resting, address)
	p.used[address] = owner
	if !address.Less(p.next) && ipam.IsPodAddress(p.subnet, address.Next()) {
		p.next = address.Next() // go on behind what is known, so that a restart does not reuse what was just freed
	}
}

func (p *pool) rest(address netip.Addr, now time.Time) {
	delete(p.used, address)
	p.resting[address] = now
	p.queue = append(p.queue, address)
}
