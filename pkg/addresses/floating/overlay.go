package floating

import (
	"net/netip"
	"slices"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

// Overlay returns the networks that make up the ranges of the Overlay pools that keep them. No node's subnet may overlap
// them.
func Overlay(pools []networkv1alpha1.IPPool) (kept []netip.Prefix) {
	for i := range pools {
		pool, err := ParsePool(&pools[i])
		if err != nil || pool.Location != networkv1alpha1.LocationOverlay || !Keeps(&pools[i]) {
			continue // its own status says so
		}
		for _, s := range pool.Segments {
			kept = append(kept, Prefixes(s.AddressRange)...)
		}
	}
	return kept
}

// Overlay returns the networks of Overlay, and the addresses of Stranded. pools are all pools as the caller has them. The book may be
// behind them.
func (b *Book) Overlay(pools []networkv1alpha1.IPPool) []netip.Prefix {
	kept := append(Overlay(pools), b.Stranded(pools, "")...)
	slices.SortFunc(kept, func(x, y netip.Prefix) int { return x.Addr().Compare(y.Addr()) })
	return kept
}

// Stranded returns the addresses that pods, workloads or reservations still have of a pool that was deleted, or whose ranges do
// not have them any more, in no order. pools are all pools as the caller has them. The book may be behind them. Stranded leaves out the
// pools of other Networks than network. The FloatingIPs of a deleted pool say by PoolNetworkLabel where they are.
func (b *Book) Stranded(pools []networkv1alpha1.IPPool, network string) (stranded []netip.Prefix) {
	for address := range b.stranded(pools, network) {
		stranded = append(stranded, netip.PrefixFrom(address, address.BitLen()))
	}
	return stranded
}

// stranded returns the addresses of Stranded with the names of their pools.
func (b *Book) stranded(pools []networkv1alpha1.IPPool, network string) map[netip.Addr]string {
	stranded := map[netip.Addr]string{}
	read := make(map[string]Pool, len(pools))
	for i := range pools {
		if pool, err := ParsePool(&pools[i]); err == nil {
			read[pool.Name] = pool
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for name, s := range b.pools {
		now, exists := read[name]
		if exists && (now.Network != network || s.claimedOutside == 0 && now.equal(s.Pool)) ||
			!exists && s.placed && s.Network != network {
			continue
		}
		for address := range s.all {
			if _, inside := now.SegmentOf(address); isClaimed(b.ips[address]) && !inside {
				stranded[address] = name
			}
		}
	}
	return stranded
}
