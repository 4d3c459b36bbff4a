package agent_test

import (
	"sync/atomic"
	"testing"

	"github.com/vishvananda/netlink"

	"github.com/weft-network/weft/pkg/agent"
	"github.com/weft-network/weft/pkg/cni"
)

// When ovs-vswitchd releases the port of an earlier attachment, it writes back flags that it read from that attachment's
// link. This sets down a new link of the same name, which happened in one of some hundreds of ADDs that followed a DEL
// of the same sandbox.
func TestALinkThatIsTakenDownDuringAdd(t *testing.T) {
	var down atomic.Int32
	n := readyNodeWith(t, func(o *agent.Options) {
		o.AddFailpoint(func(point string) {
			if point != "ADD port" {
				return
			}
			link, err := netlink.LinkByName(cni.HostName("sandbox-web", "eth0"))
			if err == nil && netlink.LinkSetDown(link) == nil {
				down.Add(1)
			}
		})
	})
	web := n.newPod("web", 5)
	n.givePort(web)
	result := n.add(web)
	if down.Load() != 1 {
		t.Fatalf("the link was set down %d times, want 1", down.Load())
	}
	if err := n.check(web, result); err != nil {
		t.Errorf("CHECK: %v", err)
	}
	n.wantTraffic(web)
}
