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
	"github.com/weft-network/weft/pkg/cniwire"
	"github.com/weft-network/weft/pkg/topology"
	"github.com/weft-network/weft/pkg/unit"
)

// gc sends the runtime's list of what is valid, none if it is nil.
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
	_, err := n.ask(ctx, cniwire.Request{Version: cniwire.Version, Command: cniwire.GC, Config: json.RawMessage(fmt.Sprintf(
		`{"cniVersion":"1.1.0","name":%q,"type":"weft-cni","socket":%q,"cni.dev/valid-attachments":%s}`, network, n.socket(), list))})
	if err != nil {
		n.Errorf("GC: %v", err)
	}
}

// TestGCRemovesWhatTheRuntimeDoesNotList: C3 (orphan ports and links), and of C4 that only what is compared whole goes.
func TestGCRemovesWhatTheRuntimeDoesNotList(t *testing.T) {
	n := readyNodeWith(t, func(o *agent.Options) { o.ListDelay = time.Nanosecond })
	web, lost := n.newPod("web", 5), n.newPod("lost", 6)
	for _, p := range []pod{web, lost} {
		n.givePort(p)
		n.add(p)
	}
	n.gc("weft", nil)      // says nothing
	n.gc("other", []pod{}) // says something of another network
	n.awaitPods(web, lost)
	n.gc("weft", []pod{web})
	n.awaitPods(web)
	n.wantTraffic(web)
	n.gc("weft", []pod{web}) // converges: nothing is left to do
	n.awaitPods(web)
	n.add(lost) // its port is still there, so the runtime may come again
	n.wantTraffic(lost)
	n.gc("weft", []pod{})
	n.awaitPods()
}

// TestGCSparesWhatIsYoungerThanTheList: C4 (GC deletes a live port). The runtime made its list before the ADD.
func TestGCSparesWhatIsYoungerThanTheList(t *testing.T) {
	n := readyNode(t)
	web, late := n.newPod("web", 5), n.newPod("late", 6)
	n.givePort(web)
	n.add(web)
	answers, _ := n.startAdd(late)
	notYet(t, answers)
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

// criRuntime is the container runtime's list.
type criRuntime struct {
	mu    sync.Mutex
	lists map[string]bool
	err   error
	asked int
}

func (r *criRuntime) sandboxes(context.Context) (map[string]bool, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asked++
	news.tell()
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

func (r *criRuntime) questions() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.asked
}

// takePort does what the operator does when a pod is gone.
func (n *node) takePort(p pod) {
	n.Helper()
	n.apply(unit.Unit{Key: topology.PodUnit(topology.Pod{Namespace: "demo", Name: p.name, UID: p.uid, Node: nodeName, Chassis: nodeName,
		Addresses: p.addresses(), MAC: p.mac(), Slot: p.slot}).Key})
}

// TestSandboxesThatAreGone: C4. A pod's interface goes without DEL when its port and its sandbox are gone, and not before.
func TestSandboxesThatAreGone(t *testing.T) {
	cri := &criRuntime{}
	n := readyNodeWith(t, func(o *agent.Options) { o.Sandboxes, o.ListDelay = cri.sandboxes, 50*time.Millisecond })
	web, lost, ending := n.newPod("web", 5), n.newPod("lost", 6), n.newPod("ending", 7)
	for _, p := range []pod{web, lost, ending} {
		n.givePort(p)
		n.add(p)
	}
	if n := cri.questions(); n != 0 {
		t.Errorf("the runtime was asked %d times although every pod has its port", n)
	}
	cri.set(errors.New("is starting"), web)
	n.takePort(lost)
	n.takePort(ending)
	n.until("a second question", func() error { return isTrue(cri.questions() >= 2, "not asked again") })
	n.awaitPods(web, lost, ending)
	cri.set(nil, ending) // web's sandbox is not listed, but its port is there
	n.awaitPods(web, ending)
	n.wantTraffic(web)
	cri.set(nil)
	n.awaitPods(web)
	n.wantTraffic(web)
	asked := cri.questions()
	n.stopAgent()
	n.startAgent()
	n.until("STATUS", n.ready)
	n.wantTraffic(web)
	if now := cri.questions(); now != asked {
		t.Errorf("the runtime was asked %d times although nothing is left over", now-asked)
	}
}

// TestAnEmptySouthboundDatabaseUnplugsNobody whose sandbox is there.
func TestAnEmptySouthboundDatabaseUnplugsNobody(t *testing.T) {
	cri := &criRuntime{}
	n := readyNodeWith(t, func(o *agent.Options) { o.Sandboxes, o.ListDelay = cri.sandboxes, 50*time.Millisecond })
	web := n.newPod("web", 5)
	n.givePort(web)
	n.add(web)
	cri.set(nil, web)
	n.takePort(web)
	n.until("a second question", func() error { return isTrue(cri.questions() >= 2, "not asked again") })
	n.awaitPods(web)
	n.givePort(web)
	n.wantTraffic(web)
}
