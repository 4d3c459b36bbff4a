package floating

import (
	"net/netip"

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
