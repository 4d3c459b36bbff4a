package floating

import (
	"slices"

	"go4.org/netipx"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

// Skip returns the parts of a pool's ranges that others have, in order.
func (p Pool) Skip(taken []Taken) (skipped []networkv1alpha1.AddressRange) {
	var b netipx.IPSetBuilder
	for _, s := range p.Segments {
		for _, t := range taken {
			if t.Overlaps(s.AddressRange) {
				b.AddRange(netipx.IPRangeFrom(later(t.First, s.First), earlier(t.Last, s.Last)))
			}
		}
	}
	set, err := b.IPSet()
	if err != nil {
		return nil // the ranges are valid
	}
	for _, r := range set.Ranges() {
		skipped = append(skipped, networkv1alpha1.AddressRange{First: r.From(), Last: r.To()})
	}
	return skipped
}

// Without returns the pool without addresses that no pod may get.
func (p Pool) Without(skipped []networkv1alpha1.AddressRange) Pool {
	if len(skipped) == 0 {
		return p
	}
	var rest []Segment
	for _, s := range p.Segments {
		var b netipx.IPSetBuilder
		b.AddRange(netipx.IPRangeFrom(s.First, s.Last))
		for _, r := range skipped {
			b.RemoveRange(netipx.IPRangeFrom(r.First, r.Last))
		}
		set, err := b.IPSet()
		if err != nil {
			return p // the ranges are valid
		}
		for _, r := range set.Ranges() {
			rest = append(rest, Segment{networkv1alpha1.AddressRange{First: r.From(), Last: r.To()}, s.Nodes})
		}
	}
	p.Segments = rest
	return p
}

// ParseEffective is ParsePool without the addresses that the operator skips, according to the status.
func ParseEffective(p *networkv1alpha1.IPPool) (Pool, error) {
	pool, err := ParsePool(p)
	var skipped []networkv1alpha1.AddressRange
	for _, text := range p.Status.Skipped {
		if r, err := networkv1alpha1.ParseAddressRange(text); err == nil { // only the operator writes the status
			skipped = append(skipped, r)
		}
	}
	return pool.Without(slices.Clip(skipped)), err
}
