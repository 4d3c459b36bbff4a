package agent_test

import (
	"sync/atomic"
	"testing"

	"github.com/vishvananda/netlink"

	"github.com/weft-network/weft/pkg/agent"
	"github.com/weft-network/weft/pkg/cni"
)

// TestALinkThatIsTakenDownDuringAdd: ovs-vswitchd, giving up the port of a former attachment, writes back flags that it read from the link of
// before: the new one of the same name was found down after one ADD in some hundreds that followed a DEL of the same sandbox.
func TestALinkThatIsTakenDownDuringAdd(t *testing.T) {
	var down atomic.Int32
	n := readyNodeWith(t, func(o *agent.Options) {
		o.Passed = func(point string) {
			if point != "ADD port" {
				return
			}
			link, err := netlink.LinkByName(cni.HostName("sandbox-web", "eth0"))
			if err == nil && netlink.LinkSetDown(link) == nil {
				down.Add(1)
			}
		}
	})
	web := n.newPod("web", 5)
	n.givePort(web)
	result := n.add(web)
	if down.Load() != 1 {
		t.Fatalf("the link was taken down %d times: nothing is shown", down.Load())
	}
	if err := n.check(web, result); err != nil {
		t.Errorf("CHECK: %v", err)
	}
	n.wantTraffic(web)
}
