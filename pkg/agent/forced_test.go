package agent_test

import (
	"errors"
	"net/netip"
	"testing"

	"github.com/weft-network/weft/pkg/topology"
	"github.com/weft-network/weft/pkg/unit"
)

// TestAForceDeletedPodIsCutOff: I6. The API server let go of a pod whose container still runs, and its address is another pod's now: with its
// port went its flows, so the address leads to the other alone, and what the first sends goes nowhere.
func TestAForceDeletedPodIsCutOff(t *testing.T) {
	n := readyNode(t)
	first := n.newPod("first", 5)
	n.givePort(first)
	n.add(first)
	n.wantTraffic(first)
	n.apply(unit.Unit{Key: topology.PodKey("demo", "first")})
	at := netip.AddrPortFrom(first.addresses()[0], 8080)
	n.until("the first pod is cut off", func() error {
		if exchange(first, at) == nil {
			return errors.New("it still answers")
		}
		return nil
	})
	second := n.newPod("second", 5) // the same addresses
	n.givePort(second)
	n.add(second)
	n.wantTraffic(second)
	for range 5 { // both are there, and answer to one address each in their own namespace
		if exchange(second, at) != nil || exchange(first, at) == nil {
			t.Fatal("the address does not lead to the second pod alone")
		}
	}
	n.del(first) // comes late, and takes nothing of the second
	n.awaitPods(second)
	n.wantTraffic(second)
}
