package agent_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/weft-network/weft/pkg/agent"
	"github.com/weft-network/weft/pkg/cni/cniwire"
	"github.com/weft-network/weft/pkg/cni/tombstone"
)

func (n *node) tombstones() tombstone.Folder { return tombstone.Beside(n.socket()) }

// bury writes the tombstone of a DEL, as weft-cni does when no agent runs.
func (n *node) bury(p pod) {
	n.Helper()
	n.must(n.tombstones().Put(tombstone.Tombstone{
		ContainerID: p.container, IfName: "eth0",
		Args: cniwire.Args{PodNamespace: "demo", PodName: p.name, PodUID: p.uid},
	}))
}

func (n *node) awaitNoTombstones() {
	n.Helper()
	n.until("tombstones", func() error {
		found, refused, err := n.tombstones().List()
		return isTrue(err == nil && len(found)+len(refused) == 0, fmt.Sprint(found, refused, err))
	})
}

// reasons counts the interfaces that were removed without a DEL, by reason.
type reasons struct {
	mu    sync.Mutex
	count map[string]int
}

func (r *reasons) add(reason string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.count == nil {
		r.count = map[string]int{}
	}
	r.count[reason]++
}

// C1: the next start removes the interface. It does not remove other interfaces, such as another sandbox of the same pod
// or a later pod of the same name.
func TestADelThatCameWhileNoAgentRan(t *testing.T) {
	why := &reasons{}
	n := readyNodeWith(t, func(o *agent.Options) { o.ObserveCollected = why.add })
	web, other, third := n.newPod("web", 5), n.newPod("other", 6), n.newPod("third", 7)
	for _, p := range []pod{web, other, third} {
		n.givePort(p)
		n.add(p)
	}
	n.stopAgent()
	earlierSandbox, earlierPod := other, third
	earlierSandbox.container = "sandbox-other-before"
	earlierPod.uid = "uid-of-an-earlier-third"
	for _, p := range []pod{web, earlierSandbox, earlierPod, {name: "unknown", uid: "uid-unknown", container: "sandbox-unknown"}} {
		n.bury(p)
	}
	n.startAgent()
	n.awaitPods(other, third)
	n.awaitNoTombstones()
	n.until("STATUS", n.ready)
	n.wantTraffic(other)
	n.wantTraffic(third)
	why.mu.Lock()
	if why.count["tombstone"] != 1 {
		t.Errorf("the reasons are %v", why.count)
	}
	why.mu.Unlock()
	n.stopAgent() // a second start finds nothing to do
	n.startAgent()
	n.until("STATUS", n.ready)
	n.awaitPods(other, third)
}

// Open vSwitch is down when the agent starts. A DEL succeeds at once and is executed after the agent has read the
// record.
func TestADelBeforeTheRecordIsRead(t *testing.T) {
	n := readyNode(t)
	web, other := n.newPod("web", 5), n.newPod("other", 6)
	n.givePort(web)
	n.givePort(other)
	n.add(web)
	n.add(other)
	n.stopAgent()
	n.ovs.Kill()
	n.startAgent()
	n.del(web)
	n.ovs.Run()
	n.awaitPods(other)
	n.awaitNoTombstones()
	n.wantTraffic(other)
}

// weft-cni was killed after the agent executed the DEL and before weft-cni removed the tombstone.
func TestATombstoneOfASandboxThatCameBack(t *testing.T) {
	n := readyNode(t)
	web := n.newPod("web", 5)
	n.givePort(web)
	n.bury(web)
	n.add(web)
	n.stopAgent()
	n.startAgent()
	n.until("STATUS", n.ready)
	n.awaitPods(web)
	n.wantTraffic(web)
	n.bury(web)
	n.del(web)
	n.awaitNoTombstones()
}
