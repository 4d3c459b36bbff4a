package floating

import (
	"net/netip"

	"go4.org/netipx"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

// Prefixes returns the networks that together are a range.
func Prefixes(r networkv1alpha1.AddressRange) []netip.Prefix {
	return netipx.IPRangeFrom(r.First, r.Last).Prefixes()
}

// Of returns a network as a range.
func Of(p netip.Prefix) networkv1alpha1.AddressRange {
	return networkv1alpha1.AddressRange{First: p.Masked().Addr(), Last: netipx.PrefixLastIP(p)}
}
