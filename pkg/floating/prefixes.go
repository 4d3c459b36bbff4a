package floating

import (
	"net/netip"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

// Prefixes returns the networks that together are a range.
func Prefixes(r networkv1alpha1.AddressRange) (found []netip.Prefix) {
	for first := r.First; first.IsValid() && first.Compare(r.Last) <= 0; {
		largest := netip.PrefixFrom(first, first.BitLen())
		for bits := first.BitLen() - 1; bits >= 0; bits-- {
			wider := netip.PrefixFrom(first, bits)
			if wider.Masked().Addr() != first || r.Last.Less(last(wider)) {
				break
			}
			largest = wider
		}
		found = append(found, largest)
		first = last(largest).Next()
	}
	return found
}

// last returns the last address of a network.
func last(p netip.Prefix) netip.Addr {
	bytes := p.Masked().Addr().AsSlice()
	for bit := p.Bits(); bit < len(bytes)*8; bit++ {
		bytes[bit/8] |= 1 << (7 - bit%8)
	}
	address, _ := netip.AddrFromSlice(bytes)
	return address
}

// Of returns a network as a range.
func Of(p netip.Prefix) networkv1alpha1.AddressRange {
	return networkv1alpha1.AddressRange{First: p.Masked().Addr(), Last: last(p)}
}
