package migrate

import (
	"errors"
	"net/netip"

	"go4.org/netipx"
)

// excludedSet returns the set of the ranges.
func excludedSet(texts []string) (*netipx.IPSet, error) {
	var b netipx.IPSetBuilder
	var errs []error
	for _, text := range texts {
		r, err := parseRange(text)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		b.AddRange(netipx.IPRangeFrom(r.First, r.Last))
	}
	set, err := b.IPSet()
	return set, errors.Join(append(errs, err)...)
}

// without lists the ranges of a network that are not in a set, as IPPools write them. The first and the last address of an
// IPv4 network are no pod's.
func without(cidr netip.Prefix, excluded *netipx.IPSet) (ranges []string) {
	var b netipx.IPSetBuilder
	b.AddPrefix(cidr)
	b.RemoveSet(excluded)
	if cidr.Addr().Is4() && cidr.Bits() < 31 {
		b.Remove(cidr.Addr())
		b.Remove(netipx.PrefixLastIP(cidr))
	}
	set, err := b.IPSet()
	if err != nil {
		return []string{cidr.String()}
	}
	for _, r := range set.Ranges() {
		if p, ok := r.Prefix(); ok {
			ranges = append(ranges, p.String())
			continue
		}
		ranges = append(ranges, r.From().String()+"-"+r.To().String())
	}
	return ranges
}
