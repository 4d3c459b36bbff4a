// Package floating decides which pod has which address of an IPPool. It is pure: it reads no cache and writes nothing.
// A FloatingIP is the lock of its address, so that several processes can decide at once: who writes it has the address.
package floating

import (
	"fmt"
	"math"
	"math/big"
	"net/netip"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

// Pool is an IPPool whose fields have been parsed.
type Pool struct {
	Name     string
	Location networkv1alpha1.IPPoolLocation
	// Network is the Network of an Underlay pool.
	Network  string
	Segments []Segment
	// Namespaces selects the namespaces that may request addresses.
	Namespaces labels.Selector
	// Size is how many FloatingIPs of each family exist at least.
	Size int
}

// Segment is a range of addresses, and the nodes that can carry it.
type Segment struct {
	networkv1alpha1.AddressRange
	Nodes labels.Selector
}

// ParsePool reads an IPPool. The error names the field.
func ParsePool(p *networkv1alpha1.IPPool) (Pool, error) {
	pool := Pool{Name: p.Name, Location: p.Spec.Location, Network: p.Spec.Network, Size: int(p.Spec.Size), Namespaces: labels.Nothing()}
	var err error
	if p.Spec.Namespaces != nil {
		if pool.Namespaces, err = metav1.LabelSelectorAsSelector(p.Spec.Namespaces); err != nil {
			return pool, fmt.Errorf("spec.namespaces: %w", err)
		}
	}
	for i, r := range p.Spec.Ranges {
		segment := Segment{Nodes: labels.Everything()}
		if segment.AddressRange, err = networkv1alpha1.ParseAddressRange(r.Addresses); err != nil {
			return pool, fmt.Errorf("spec.ranges[%d].addresses: %w", i, err)
		}
		if r.NodeSelector != nil {
			if segment.Nodes, err = metav1.LabelSelectorAsSelector(r.NodeSelector); err != nil {
				return pool, fmt.Errorf("spec.ranges[%d].nodeSelector: %w", i, err)
			}
		}
		for j, earlier := range pool.Segments {
			if earlier.Overlaps(segment.AddressRange) {
				return pool, fmt.Errorf("spec.ranges[%d].addresses: %s overlaps %s of spec.ranges[%d]", i, segment, earlier, j)
			}
		}
		pool.Segments = append(pool.Segments, segment)
	}
	return pool, nil
}

// Families lists the families of the pool's addresses, IPv4 first: true for IPv4.
func (p Pool) Families() (families []bool) {
	for _, is4 := range []bool{true, false} {
		for _, s := range p.Segments {
			if s.First.Is4() == is4 {
				families = append(families, is4)
				break
			}
		}
	}
	return families
}

// SegmentOf returns the segment with an address.
func (p Pool) SegmentOf(a netip.Addr) (Segment, bool) {
	for _, s := range p.Segments {
		if s.Contains(a) {
			return s, true
		}
	}
	return Segment{}, false
}

// Total counts the addresses of the pool, at most math.MaxInt64.
func (p Pool) Total() (total int64) {
	for _, s := range p.Segments {
		size := s.Size()
		if size > math.MaxInt64-total {
			return math.MaxInt64
		}
		total += size
	}
	return total
}

// Size counts the addresses of the segment, at most math.MaxInt64.
func (s Segment) Size() int64 {
	first, last := new(big.Int).SetBytes(s.First.AsSlice()), new(big.Int).SetBytes(s.Last.AsSlice())
	if size := last.Sub(last, first).Add(last, big.NewInt(1)); size.IsInt64() {
		return size.Int64()
	}
	return math.MaxInt64
}
