package agent_test

import (
	"errors"
	"net/netip"
	"testing"

	"github.com/weft-network/weft/pkg/topology"
	"github.com/weft-network/weft/pkg/unit"
)

// I6: the API server has deleted a pod whose container still runs, and another pod has its address. The flows of the
// first pod are removed together with its port. The address then leads only to the second pod, and packets of the first
// pod are dropped.
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
	for range 5 { // both containers run and listen at the same address, each in its own namespace
		if exchange(second, at) != nil || exchange(first, at) == nil {
			t.Fatal("the address does not lead to the second pod only")
		}
	}
	n.del(first) // comes late and must not affect the second pod
	n.awaitPods(second)
	n.wantTraffic(second)
}
