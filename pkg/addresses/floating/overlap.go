package floating

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

// Taken is a range of addresses that something else has.
type Taken struct {
	networkv1alpha1.AddressRange
	// Of names it: "IPPool web", "the pod subnet of node n1".
	Of string
}

// compareTaken orders what is taken, because the message about it must be the same each time.
func compareTaken(a, b Taken) int { return cmp.Or(cmp.Compare(a.Of, b.Of), a.First.Compare(b.First)) }

// RefusedError explains why a pool is not in force.
type RefusedError struct{ Reason, Message string }

func (e *RefusedError) Error() string { return e.Message }

// Check returns an error if a range of the pool is outside of the networks in within, or overlaps a range in taken. within has
// the ClusterNetwork's entries for an Overlay pool, and the Network's subnets for an Underlay pool. A NAT pool does not use it.
func (p Pool) Check(within []netip.Prefix, where string, taken []Taken) error {
	for _, s := range p.Segments {
		if p.Location != networkv1alpha1.LocationNAT && !isWithin(s.AddressRange, within) {
			return &RefusedError{networkv1alpha1.ReasonRangeOutside, fmt.Sprintf("range %s of IPPool %s is not within %s", s, p.Name, where)}
		}
		overlaps := slices.DeleteFunc(slices.Clone(taken), func(t Taken) bool { return !t.Overlaps(s.AddressRange) })
		if len(overlaps) > 0 {
			t := slices.MinFunc(overlaps, compareTaken)
			return &RefusedError{networkv1alpha1.ReasonRangeOverlaps,
				fmt.Sprintf("range %s of IPPool %s overlaps %s of %s", s, p.Name, t.AddressRange, t.Of)}
		}
	}
	return nil
}

// CheckFamilies reports a range of a family that the networks of pods do not have: no pod would get its addresses, and
// nothing could be translated to them. Without networks nothing is reported, because they may come.
func (p Pool) CheckFamilies(networks []netip.Prefix) error {
	for _, s := range p.Segments {
		same := func(n netip.Prefix) bool { return n.Addr().Is4() == s.First.Is4() }
		if p.Location == networkv1alpha1.LocationNAT && len(networks) > 0 && !slices.ContainsFunc(networks, same) {
			return &RefusedError{networkv1alpha1.ReasonRangeOutside, fmt.Sprintf(
				"range %s of IPPool %s is of a family of which ClusterNetwork's spec.clusterNetwork has no entry", s, p.Name)}
		}
	}
	return nil
}

func isWithin(r networkv1alpha1.AddressRange, networks []netip.Prefix) bool {
	for _, n := range networks {
		if n.Contains(r.First) && n.Contains(r.Last) {
			return true
		}
	}
	return false
}

// outside returns the FloatingIPs of a pool that are in none of its ranges, by address. The index has them if the pool is
// as it was recorded.
func (b *Book) outside(p Pool) (found []*networkv1alpha1.FloatingIP) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.pools[p.Name]
	switch {
	case s == nil:
		return nil
	case s.known && s.Pool.equal(p):
		return b.byAddress(s.outside)
	}
	addresses := map[netip.Addr]struct{}{}
	for a := range s.all {
		if _, inside := p.SegmentOf(a); !inside {
			addresses[a] = struct{}{}
		}
	}
	return b.byAddress(addresses)
}

// Outside reports the addresses of the pool in use that are in none of its ranges, because they shrank too far.
func (b *Book) Outside(p Pool) error {
	var users []string
	for _, f := range b.outside(p) {
		if h := f.Spec.Holder; h != nil && h.PodUID != "" {
			users = append(users, fmt.Sprintf("%s of pod %s/%s", f.Spec.Address, h.Namespace, h.Pod))
		} else if h != nil {
			users = append(users, fmt.Sprintf("%s kept for %s", f.Spec.Address, WorkloadOf(h)))
		}
	}
	if len(users) == 0 {
		return nil
	}
	return &RefusedError{networkv1alpha1.ReasonRangeInUse, fmt.Sprintf("IPPool %s gives no further addresses until the following, "+
		"which are in none of its ranges, are released or in a range again: %s", p.Name, some(users))}
}

// namedUsers is how many addresses a message names.
const namedUsers = 10

func some(texts []string) string {
	if more := len(texts) - namedUsers; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(texts[:namedUsers], ", "), more)
	}
	return strings.Join(texts, ", ")
}

// ReservedOutside describes the reserved addresses of the pool that are in none of its ranges, or returns "".
func (b *Book) ReservedOutside(p Pool) string {
	var reserved []string
	for _, f := range b.outside(p) {
		if IsReserved(f) {
			reserved = append(reserved, string(f.Spec.Address))
		}
	}
	if len(reserved) == 0 {
		return ""
	}
	return "; it keeps addresses that are reserved outside of its ranges: " + some(reserved)
}

// Missing returns addresses that need a FloatingIP, so that the recorded pool has Size of each family.
func (b *Book) Missing(p Pool) (missing []netip.Addr) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, is4 := range p.Families() {
		have := b.shelf(p.Name).inside[one(is4)]
		for _, s := range p.Segments {
			if s.First.Is4() != is4 {
				continue
			}
			for a := s.First; have < p.Size; a = a.Next() {
				if b.ips[a] == nil {
					missing = append(missing, a)
					have++
				}
				if a == s.Last {
					break
				}
			}
		}
	}
	return missing
}

// Surplus returns the FloatingIPs of the pool that nobody has or reserved and that are in none of its ranges.
func (b *Book) Surplus(p Pool) (surplus []*networkv1alpha1.FloatingIP) {
	return slices.DeleteFunc(b.outside(p), isClaimed)
}

// isClaimed reports whether a FloatingIP has a holder, or a person reserved it. Nobody but a person ends a reservation.
func isClaimed(f *networkv1alpha1.FloatingIP) bool { return f.Spec.Holder != nil || IsReserved(f) }
