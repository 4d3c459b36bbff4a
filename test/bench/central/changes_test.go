//go:build e2e

package central

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/topology"
	"github.com/weft-network/weft/pkg/unit"
	"github.com/weft-network/weft/test/bench/figures"
	"github.com/weft-network/weft/test/bench/probe"
)

// changes measures each kind of change, one after the other, while one agent watches everything.
func (w *world) changes() {
	w.Helper()
	watcher := w.watch()
	defer watcher.Close()
	n, services := *rounds, w.size.LoadBalancers
	w.change(watcher, "nothing", n, func(int) {})
	w.change(watcher, "heartbeat", n, w.heartbeat)
	w.change(watcher, "pod", n, func(i int) { w.one(w.pod(w.newPod(i))) })
	w.change(watcher, "pod works", n, func(int) {
		_, err := w.sb.Claim(1)
		w.must(err)
	})
	w.change(watcher, "pod goes", n, func(i int) { w.one(unit.Unit{Key: w.pod(w.newPod(i)).Key}) })
	w.firstPods(watcher, n)
	w.change(watcher, "service", n, func(i int) { w.one(w.service(services+i, i, facts.FromAll)) })
	w.change(watcher, "endpoints", n, func(i int) { w.one(w.service(services+i, i+1, facts.FromAll)) })
	w.change(watcher, "service, local", n, func(i int) { w.one(w.service(services+n+i, i, facts.FromLocal)) })
	w.locals(watcher, services+n, n)
	w.change(watcher, "policy", n, func(i int) { w.one(policy(fmt.Sprintf("more-%d", i), inNamespace(w.namespaceOf(0)))) })
	w.change(watcher, fmt.Sprintf("policy, new group of %d", min(perNamespace, w.size.Ports)), nodeRounds(), w.grouped)
	w.change(watcher, "node", nodeRounds(), func(i int) {
		w.register(w.newNode(i))
		w.one(w.nodeHere(w.newNode(i))...)
	})
	if w.size.Zones > 1 {
		w.change(watcher, "pod elsewhere", n, func(i int) { w.one(w.pod(w.newPod(i) + 1)) })
		w.change(watcher, "pod elsewhere goes", n, func(i int) { w.one(unit.Unit{Key: w.pod(w.newPod(i) + 1).Key}) })
		w.change(watcher, "node elsewhere", nodeRounds(), func(i int) { w.join(w.newNode(i) + 1) })
	}
}

// nodeRounds is the number of nodes that come. Each makes ovn-northd recompute everything, so they are few.
func nodeRounds() int { return max(*rounds/5, 1) }

// firstPods measures pods whose policy has no other pod on the node, so that the policy's flows come to the node's switch and go.
func (w *world) firstPods(watcher *probe.Agent, n int) {
	w.Helper()
	podOf := func(i int) unit.Unit {
		return topology.PodUnit(w.podIn(fmt.Sprintf("alone-%04d", i), w.newPod(i), w.nodeOf(w.newPod(i))))
	}
	for i := range n {
		selector := inNamespace(fmt.Sprintf("alone-%04d", i))
		w.one(append(groups(selector), policy("isolation", selector))...)
	}
	w.change(watcher, "pod, first of its policy on the node", n, func(i int) { w.one(podOf(i)) })
	w.change(watcher, "pod, last of its policy on the node, goes", n, func(i int) { w.one(unit.Unit{Key: podOf(i).Key}) })
}

// locals measures changes of the endpoints of n services that balance only to the client's own node. The services are numbered
// from first on, and the backends of the i-th begin at pod i.
func (w *world) locals(watcher *probe.Agent, first, n int) {
	w.Helper()
	again := w.size.Nodes // the pod with this number is on the node of pod 0
	for _, c := range []struct {
		name      string
		from, all int // the first backend of the first service, and the number of backends of each
	}{
		{"endpoints, local", 1, backends}, // an endpoint moves to another node
		{"endpoints, local, same nodes", 1 + again, backends},
		{"endpoints, local, a node more", 1 + again, backends + 1},
		{"endpoints, local, a node less", 1 + again, backends},
	} {
		w.change(watcher, c.name, n, func(i int) { w.one(w.serviceOf(first+i, c.from+i, c.all, facts.FromLocal)) })
	}
	w.change(watcher, "service, local, goes", n, func(i int) {
		w.one(unit.Unit{Key: topology.ServiceKey(serviceNamespace, serviceName(first+i))})
	})
}

// watch connects an agent that watches everything.
func (w *world) watch() *probe.Agent {
	w.Helper()
	monitor, err := probe.Controller(nil)
	w.must(err)
	watcher, err := probe.Connect(w.central.SB.Endpoint(), monitor)
	w.must(err)
	return watcher
}

// heartbeat writes what the operator writes every 5 s.
func (w *world) heartbeat(i int) {
	w.Helper()
	key, value := "weft-heartbeat", []any{"map", []any{[]any{"weft-heartbeat", strconv.Itoa(i)}}}
	_, err := w.nb.Transact(northboundDB, map[string]any{"op": "mutate", "table": "NB_Global", "where": []any{}, "mutations": []any{
		[]any{"external_ids", "delete", key}, []any{"external_ids", "insert", value}}})
	w.must(err)
}

// grouped adds a policy with a new selector: its group and its sets are new, and a namespace's pods join them.
func (w *world) grouped(i int) {
	w.Helper()
	first := i * perNamespace % w.size.Ports / perNamespace * perNamespace
	selector := facts.PodSelector{Namespace: w.namespaceOf(first), Pods: labels.SelectorFromSet(labels.Set{"round": strconv.Itoa(i)})}
	if w.extra == nil {
		w.extra = map[int][]facts.PodSelector{}
	}
	members := min(perNamespace, w.size.Ports-first)
	for pod := first; pod < first+members; pod++ {
		w.extra[pod] = append(w.extra[pod], selector)
	}
	units := append(groups(selector), policy(fmt.Sprintf("grouped-%d", i), selector))
	for n := range members {
		units = append(units, w.pod(first+n))
	}
	w.must(w.engine.ApplyAll(w.Context(), units...)) // the operator writes them together, too
}

// change measures one kind of change, one at a time, until the southbound database has it.
func (w *world) change(watcher *probe.Agent, name string, n int, do func(i int)) {
	w.Helper()
	w.sync()
	w.northd("inc-engine/clear-stats")
	northd, server := w.cpu(w.central.NorthdPID()), w.cpu(w.central.SB.PID())
	_, sent := watcher.Updates()
	took := make([]time.Duration, n)
	for i := range n {
		began := time.Now()
		do(i)
		w.sync()
		took[i] = time.Since(began)
	}
	time.Sleep(travel)
	each := func(d time.Duration) float64 { return figures.Milliseconds(d) / float64(n) }
	w.note(each(w.cpu(w.central.NorthdPID())-northd), false, "%s, northd CPU ms", name)
	w.note(each(w.cpu(w.central.SB.PID())-server), false, "%s, SB server CPU ms", name)
	_, after := watcher.Updates()
	w.note(float64(after-sent)/float64(n)/1000, false, "%s, kB to each agent", name)
	slices.Sort(took)
	w.note(figures.Milliseconds(took[(n-1)/2]), false, "%s, ms until in SB, p50", name)
	did, err := parseStats(w.northd("inc-engine/show-stats"))
	w.must(err)
	for _, of := range []string{"northd", "lflow"} {
		if _, ok := did[of]; !ok {
			w.Fatalf("northd's engine has no node %s", of)
		}
		w.note(float64(did[of].recompute)/float64(n), true, "%s, %s computed anew", name, of)
	}
	w.Logf("%-26s %d times; recomputed: %s", name, n, did.recomputed())
}

// travel bounds how long a committed update takes to reach an agent.
const travel = 100 * time.Millisecond
