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

// Overlay returns the networks of Overlay, and the addresses that pods or workloads still have of a pool that was deleted, or
// that was recreated with other ranges. pools are all pools as the caller has them. The book may be behind them.
func (b *Book) Overlay(pools []networkv1alpha1.IPPool) []netip.Prefix {
	read := make(map[string]Pool, len(pools))
	for i := range pools {
		if pool, err := ParsePool(&pools[i]); err == nil {
			read[pool.Name] = pool
		}
	}
	kept := Overlay(pools)
	b.mu.Lock()
	defer b.mu.Unlock()
	for name, s := range b.pools {
		if now, exists := read[name]; s.heldOutside == 0 && exists && now.equal(s.Pool) || s.used+s.kept == 0 {
			continue
		}
		for address, f := range b.ips {
			if _, inside := read[name].SegmentOf(address); f.Spec.Pool == name && f.Spec.Holder != nil && !inside {
				kept = append(kept, netip.PrefixFrom(address, address.BitLen()))
			}
		}
	}
	slices.SortFunc(kept, func(x, y netip.Prefix) int { return x.Addr().Compare(y.Addr()) })
	return kept
}
