package floating

import (
	"net/netip"
	"testing"
)

// A workload that scales n kept addresses away compares n log n addresses, and not n².
func TestADecisionSearchesTheKeptAddresses(t *testing.T) {
	compared := 0
	compare := func(x, y netip.Addr) int { compared++; return x.Compare(y) }
	o := &occupants{}
	for a := netip.MustParseAddr("10.0.0.0"); len(o.kept) < 1000; a = a.Next() {
		o.kept = append(o.kept, a)
	}
	for i, a := range o.kept {
		if n := o.lower(a, compare); n != i {
			t.Fatalf("%d addresses are below %s, want %d", n, a, i)
		}
	}
	if most := 1000 * 11; compared > most { // 2^10 > 1000, and one more comparison for equality
		t.Errorf("1,000 decisions compared %d addresses, want at most %d", compared, most)
	}
}
