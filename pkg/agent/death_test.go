package agent_test

import (
	"strings"
	"sync/atomic"
	"testing"

	"github.com/weft-network/weft/pkg/agent"
	"github.com/weft-network/weft/pkg/cni/cniwire"
)

// death ends the request that passes its point, as a kill of the agent would: it does nothing after the point and undoes
// nothing before it. The test then starts the next agent.
type death struct{ point atomic.Value }

func (d *death) at(point string) { d.point.Store(point) }

func (d *death) failpoint(point string) {
	if d.point.CompareAndSwap(point, "") {
		panic("the agent dies here")
	}
}

// dies sends a request that ends at a point, and starts the next agent.
func (n *node) dies(d *death, point string, req cniwire.Request) {
	n.Helper()
	d.at(point)
	_, err := n.send(n.Context(), req)
	if err == nil || !strings.Contains(err.Error(), "the agent dies here") {
		n.Fatalf("%s: the request ended with %v", point, err)
	}
	n.stopAgent()
	n.startAgent()
	n.until("STATUS", n.ready)
}

// C3: no orphans after a crash. Wherever an ADD or a DEL is killed, nothing is left after the runtime has sent its next
// request, which is a DEL or the ADD of a newer sandbox.
func TestTheAgentDiesAtAnyPoint(t *testing.T) {
	d := &death{}
	d.at("")
	n := readyNodeWith(t, func(o *agent.Options) { o.AddFailpoint(d.failpoint) })
	web, other := n.newPod("web", 5), n.newPod("other", 6)
	n.givePort(web)
	n.givePort(other)
	n.add(other)
	next := web
	next.container = "sandbox-web-2"
	next.netNS = n.newNetNS(next.container)
	for _, point := range []string{"ADD node", "ADD address", "ADD link", "ADD port", "ADD interface", "ADD flows"} {
		n.dies(d, point, web.request(n, cniwire.Add))
		if point == "ADD node" || point == "ADD address" || point == "ADD link" {
			n.awaitPods(other) // without a request of the runtime
		}
		n.del(web)
		n.awaitPods(other)

		n.dies(d, point, web.request(n, cniwire.Add))
		n.add(next)
		n.awaitPods(other, next)
		n.wantTraffic(next)
		n.del(web) // the old sandbox's DEL comes late
		n.del(next)
		n.awaitPods(other)
	}
	for _, point := range []string{"DEL record", "DEL link"} {
		n.add(web)
		n.dies(d, point, web.request(n, cniwire.Del))
		n.awaitPods(other)
		n.del(web) // the runtime tries again
	}
	n.awaitPods(other)
	n.wantTraffic(other)
	n.awaitNoTombstones()
}
