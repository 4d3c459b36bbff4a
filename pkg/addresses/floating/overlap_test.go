package floating_test

import (
	"net/netip"
	"slices"
	"testing"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/addresses/floating"
)

// Lists of the cache have no order, but the message about an overlap must be the same each time: two messages in turn would be written
// into the status forever.
func TestCheckReportsOneOverlap(t *testing.T) {
	pool := floating.Pool{Name: "web", Location: networkv1alpha1.LocationNAT, Segments: []floating.Segment{
		{AddressRange: addressRange("192.0.2.8", "192.0.2.15")}}}
	taken := []floating.Taken{
		{AddressRange: addressRange("192.0.2.10", "192.0.2.10"), Of: "EgressIP b"},
		{AddressRange: addressRange("192.0.2.12", "192.0.2.12"), Of: "EgressIP a"},
		{AddressRange: addressRange("192.0.2.11", "192.0.2.11"), Of: "EgressIP a"},
		{AddressRange: addressRange("192.0.2.16", "192.0.2.16"), Of: "EgressIP 0"},
	}
	const want = "range 192.0.2.8-192.0.2.15 of IPPool web overlaps 192.0.2.11 of EgressIP a"
	for range taken {
		if err := pool.Check(nil, "", taken); err == nil || err.Error() != want {
			t.Errorf("Check(%v): %v, want %q", taken, err, want)
		}
		taken = slices.Concat(taken[1:], taken[:1])
	}
}

func addressRange(first, last string) networkv1alpha1.AddressRange {
	return networkv1alpha1.AddressRange{First: netip.MustParseAddr(first), Last: netip.MustParseAddr(last)}
}
