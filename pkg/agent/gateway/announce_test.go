package gateway

import (
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weft-network/weft/pkg/agent/neighbour"
)

// An address is announced at once and after each gap, and from the beginning for another binding.
func TestAnnouncementsAreRepeated(t *testing.T) {
	address := netip.MustParseAddr("fd00:18::202")
	now, times := time.Unix(1000, 0), []time.Duration(nil)
	states := map[netip.Addr]announced{address: {binding: "a"}}
	for {
		due, again := announceDue(states, now)
		if len(due) != 1 {
			t.Fatalf("after %v: due %v", times, due)
		}
		if early, wait := announceDue(states, now); len(early) > 0 || wait != again {
			t.Fatalf("after %v, again at once: due %v, next after %v", times, early, wait)
		}
		if again == 0 {
			break
		}
		times, now = append(times, again), now.Add(again)
	}
	if diff := cmp.Diff(neighbour.Gaps, times); diff != "" {
		t.Error(diff)
	}
	if late, _ := announceDue(states, now.Add(time.Hour)); len(late) > 0 {
		t.Errorf("announced again after an hour")
	}
	states[address] = states[address].on("b")
	if due, _ := announceDue(states, now); len(due) != 1 {
		t.Error("not announced for another binding")
	}
}
