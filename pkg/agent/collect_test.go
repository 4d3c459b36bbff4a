package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/weft-network/weft/pkg/agent"
	"github.com/weft-network/weft/pkg/cni/cniwire"
	"github.com/weft-network/weft/pkg/topology"
	"github.com/weft-network/weft/pkg/unit"
)

// gc sends GC with the runtime's list of valid attachments. A nil list sends null.
func (n *node) gc(network string, valid []pod) {
	n.Helper()
	list := "null"
	if valid != nil {
		attachments := []cniwire.Attachment{}
		for _, p := range valid {
			attachments = append(attachments, cniwire.Attachment{ContainerID: p.container, IfName: "eth0"})
		}
		text, err := json.Marshal(attachments)
		n.must(err)
		list = string(text)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	_, err := n.send(ctx, cniwire.Request{Version: cniwire.Version, Command: cniwire.GC, Config: json.RawMessage(fmt.Sprintf(
		`{"cniVersion":"1.1.0","name":%q,"type":"weft-cni","socket":%q,"cni.dev/valid-attachments":%s}`, network, n.socket(), list))})
	if err != nil {
		n.Errorf("GC: %v", err)
	}
}

// C3: GC removes orphan ports and links. C4: it removes only attachments of its own network, and only with a complete
// list.
func TestGCRemovesWhatTheRuntimeDoesNotList(t *testing.T) {
	n := readyNodeWith(t, func(o *agent.Options) { o.ListDelay = time.Nanosecond })
	web, lost := n.newPod("web", 5), n.newPod("lost", 6)
	for _, p := range []pod{web, lost} {
		n.givePort(p)
		n.add(p)
	}
	n.gc("weft", nil)      // without a list
	n.gc("other", []pod{}) // a list of another network
	n.awaitPods(web, lost)
	n.gc("weft", []pod{web})
	n.awaitPods(web)
	n.wantTraffic(web)
	n.gc("weft", []pod{web}) // has nothing left to do
	n.awaitPods(web)
	n.add(lost) // its port still exists, so that the runtime may repeat the ADD
	n.wantTraffic(lost)
	n.gc("weft", []pod{})
	n.awaitPods()
}

// C4: GC must not remove an attachment that is younger than the runtime's list.
func TestGCSparesWhatIsYoungerThanTheList(t *testing.T) {
	n := readyNode(t)
	web, late := n.newPod("web", 5), n.newPod("late", 6)
	n.givePort(web)
	n.add(web)
	answers, _ := n.startAdd(late)
	n.awaitWait(late, answers, noPort)
	n.gc("weft", []pod{})
	n.givePort(late)
	if a := <-answers; a.err != nil {
		t.Fatal(a.err)
	}
	n.gc("weft", []pod{})
	n.wantTraffic(web)
	n.wantTraffic(late)
	n.awaitPods(web, late)
}

// criRuntime is a container runtime that lists its sandboxes.
type criRuntime struct {
	mu     sync.Mutex
	lists  map[string]bool
	err    error
	listed int
}

func (r *criRuntime) sandboxes(context.Context) (map[string]bool, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.listed++
	changes.Notify()
	return maps.Clone(r.lists), r.err
}

func (r *criRuntime) set(err error, pods ...pod) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.err, r.lists = err, map[string]bool{}
	for _, p := range pods {
		r.lists[p.container] = true
	}
}

func (r *criRuntime) requests() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.listed
}

// takePort removes a pod's port, as the operator does when the pod is gone.
func (n *node) takePort(p pod) {
	n.Helper()
	n.apply(unit.Unit{Key: topology.PodUnit(topology.Pod{
		Namespace: "demo", Name: p.name, UID: p.uid, Node: nodeName, Chassis: nodeName,
		Addresses: p.addresses(), MAC: p.mac(), Slot: p.slot,
	}).Key})
}

// C4: the agent removes a pod's interface without a DEL only after both its port and its sandbox are gone.
func TestSandboxesThatAreGone(t *testing.T) {
	cri := &criRuntime{}
	n := readyNodeWith(t, func(o *agent.Options) { o.Sandboxes, o.ListDelay = cri.sandboxes, 50*time.Millisecond })
	web, lost, ending := n.newPod("web", 5), n.newPod("lost", 6), n.newPod("ending", 7)
	for _, p := range []pod{web, lost, ending} {
		n.givePort(p)
		n.add(p)
	}
	if n := cri.requests(); n != 0 {
		t.Errorf("the agent listed sandboxes %d times although every pod has its port", n)
	}
	cri.set(errors.New("is starting"), web)
	n.takePort(lost)
	n.takePort(ending)
	n.until("a second list", func() error { return isTrue(cri.requests() >= 2, "not listed again") })
	n.awaitPods(web, lost, ending)
	cri.set(nil, ending) // web's sandbox is not listed, but its port exists
	n.awaitPods(web, ending)
	n.wantTraffic(web)
	cri.set(nil)
	n.awaitPods(web)
	n.wantTraffic(web)
	before := cri.requests()
	n.stopAgent()
	n.startAgent()
	n.until("STATUS", n.ready)
	n.wantTraffic(web)
	if now := cri.requests(); now != before {
		t.Errorf("the agent listed sandboxes %d times although nothing is left over", now-before)
	}
}

// A pod whose sandbox exists stays attached even if the southbound database loses its port.
func TestAnEmptySouthboundDatabaseUnplugsNobody(t *testing.T) {
	cri := &criRuntime{}
	n := readyNodeWith(t, func(o *agent.Options) { o.Sandboxes, o.ListDelay = cri.sandboxes, 50*time.Millisecond })
	web := n.newPod("web", 5)
	n.givePort(web)
	n.add(web)
	cri.set(nil, web)
	n.takePort(web)
	n.until("a second list", func() error { return isTrue(cri.requests() >= 2, "not listed again") })
	n.awaitPods(web)
	n.givePort(web)
	n.wantTraffic(web)
}
