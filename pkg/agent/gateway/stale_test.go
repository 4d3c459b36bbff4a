package gateway

import (
	"net/netip"
	"testing"
	"time"

	"github.com/weft-network/weft/pkg/agent/desired"
)

// An entry is removed at once and once after each gap, unless its endpoint comes back.
func TestStaleEntriesAreRemovedSeveralTimes(t *testing.T) {
	to, by := netip.MustParseAddrPort("10.96.0.7:53"), netip.MustParseAddrPort("10.244.0.5:53")
	one := desired.Stale{To: to, By: by}
	var s staleEntries
	s.add([]desired.Stale{one})
	now, times := time.Now(), 0
	for {
		due := s.due(now)
		if len(due) != 1 || due[0] != one {
			t.Fatalf("after %d removals, %v is due", times, due)
		}
		times++
		next := s.removed(due, now)
		if next == 0 {
			break
		}
		if early := s.due(now.Add(next - time.Nanosecond)); len(early) > 0 {
			t.Errorf("%v is due before its time", early)
		}
		now = now.Add(next)
	}
	if want := 1 + len(staleGaps()); times != want {
		t.Errorf("%d removals, want %d", times, want)
	}

	s.add([]desired.Stale{one})
	s.keep(desired.Backends{to: {by: true}})
	if due := s.due(now); len(due) > 0 {
		t.Errorf("%v is due although its endpoint is back", due)
	}
}
