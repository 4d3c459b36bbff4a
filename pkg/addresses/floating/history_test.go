package floating_test

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/addresses/floating"
)

// history is a cluster whose processes are behind the API server.
type history struct {
	*rapid.T
	testing     *testing.T
	server      *server
	processes   []*process
	ranges      []string // of the pool
	pods        map[types.UID]*livingPod
	workloads   []*workload
	now         time.Time
	nextPod     int
	nextVersion int
}

// livingPod is a pod, and the addresses at its port.
type livingPod struct {
	floating.Requester
	workload *workload
	node     string
	wired    []netip.Addr
	// blind says that a process with another version of the pool confirmed its addresses, and so not that its node
	// carries them.
	blind bool
}

type workload struct {
	floating.Workload
	state  floating.State
	fields []string // of its pods' requests
}

var (
	blocks = []string{"192.0.2.0/30 rack=1", "192.0.2.4/30 rack=2", "192.0.2.8/31", "2001:db8::/126", "2001:db8::4/127 rack=1"}
	nodes  = []string{"1a", "1b", "2a", "3a"}
)

func newHistory(t *rapid.T, tt *testing.T) *history {
	h := &history{T: t, testing: tt, server: &server{objects: map[string]*networkv1alpha1.FloatingIP{}},
		pods: map[types.UID]*livingPod{}, now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	for range 3 {
		p := &process{server: h.server}
		p.restart()
		h.processes = append(h.processes, p)
	}
	requests := []string{"", "count=2", `ranges=[["192.0.2.1-192.0.2.5","2001:db8::2"]]`, `ranges=[["192.0.2.0/29"],["192.0.2.2-192.0.2.9"]]`}
	policies := []string{"Pod", "Immutable", "Immutable", "Never"}
	for _, kind := range []string{"StatefulSet db", "Deployment web", "Deployment roll", "DaemonSet agent", "Job import"} {
		w := &workload{Workload: requesterOf(kind, "x").Workload}
		w.fields = append(w.fields, "release-policy="+rapid.SampledFrom(policies).Draw(t, kind+" policy"))
		if request := rapid.SampledFrom(requests).Draw(t, kind+" request"); request != "" {
			w.fields = append(w.fields, request)
		}
		if rapid.IntRange(0, 3).Draw(t, kind+" ttl") == 0 {
			w.fields = append(w.fields, "ttl=5s")
		}
		h.workloads = append(h.workloads, w)
		h.create(w)
	}
	h.changePool()
	return h
}

func (h *history) create(w *workload) {
	h.nextVersion++
	w.state = floating.State{Exists: true, UID: types.UID(fmt.Sprintf("%s-%d", w.Name, h.nextVersion)),
		Replicas: rapid.IntRange(0, 3).Draw(h.T, "replicas")}
	if w.Kind == "DaemonSet" {
		w.state.Replicas = -1
	}
}

func (h *history) process() *process { return rapid.SampledFrom(h.processes).Draw(h.T, "process") }

// pod draws a living pod; nil without any.
func (h *history) pod() *livingPod {
	if len(h.pods) == 0 {
		return nil
	}
	return h.pods[rapid.SampledFrom(slices.Sorted(maps.Keys(h.pods))).Draw(h.T, "pod")]
}

// object draws a FloatingIP; nil without any.
func (h *history) object() *networkv1alpha1.FloatingIP {
	if len(h.server.objects) == 0 {
		return nil
	}
	return h.server.objects[rapid.SampledFrom(slices.Sorted(maps.Keys(h.server.objects))).Draw(h.T, "object")].DeepCopy()
}

// changePool changes the ranges. One process reads it immediately.
func (h *history) changePool() {
	h.ranges = nil
	for _, block := range blocks {
		if rapid.IntRange(0, 3).Draw(h.T, "has "+block) > 0 {
			h.ranges = append(h.ranges, block)
		}
	}
	h.readPool(h.process())
}

// readPool makes a process read the pool. It refuses ranges that leave addresses in use outside.
func (h *history) readPool(p *process) {
	if len(h.ranges) == 0 {
		p.RemovePool("web")
		return
	}
	pool, refused := poolOf(h.testing, "web", h.ranges...), ""
	if err := p.Outside(pool); err != nil {
		refused = err.Error()
	}
	p.SetPool(pool, refused)
}

// start creates a pod of a workload, if it wants one.
func (h *history) start() {
	w := rapid.SampledFrom(h.workloads).Draw(h.T, "workload")
	if !w.state.Exists {
		h.create(w)
	}
	h.nextPod++
	uid := fmt.Sprint("u", h.nextPod)
	name := w.Name + "-" + uid
	var mine []string
	for _, p := range h.pods {
		if p.workload == w {
			mine = append(mine, p.Name)
		}
	}
	surge := 0
	switch w.Kind {
	case "StatefulSet":
		name = fmt.Sprint(w.Name, "-", rapid.IntRange(0, 2).Draw(h.T, "ordinal"))
		if slices.Contains(mine, name) {
			return
		}
	case "Deployment":
		surge = 1
	}
	if w.state.Replicas >= 0 && len(mine) >= w.state.Replicas+surge || len(mine) >= len(nodes) {
		return
	}
	fields := append([]string{"uid=" + uid}, w.fields...)
	h.pods[types.UID(uid)] = &livingPod{Requester: requesterOf(w.Kind+" "+w.Name, name, fields...), workload: w}
}

// requesterOf returns a pod as it is now.
func (h *history) requesterOf(pod *livingPod) floating.Requester {
	a := pod.Requester
	a.WorkloadUID, a.Has = pod.workload.state.UID, pod.wired
	if a.Limited = pod.workload.Name == "roll" && a.Request.Policy != networkv1alpha1.ReleaseWithPod; a.Limited {
		a.Limit = pod.workload.state.Replicas
	}
	return a
}

// reserve gives a pod that is not bound addresses that a node carries, as the extender does before it binds the pod, or
// as the reconciler of gated pods does, which names no node. It releases nothing, because another process may bind the
// pod meanwhile. The process may crash between two writes.
func (h *history) reserve(p *process, pod *livingPod, node floating.Node, writes int) {
	if pod.node != "" {
		return
	}
	a := h.requesterOf(pod)
	choices, err := p.Reserve(a, node)
	defer func() { p.Done(a.UID, choices) }()
	if err != nil {
		return
	}
	for _, c := range choices {
		if c.IsHeld(a.UID) {
			continue
		}
		if writes--; writes < 0 || !p.put(floating.Claimed(c, a, node.Name, metav1.NewTime(h.now))) {
			return
		}
	}
}

// claim gives a pod that is bound its addresses, as the operator does. The process may crash between two writes.
func (h *history) claim(p *process, pod *livingPod, node string, writes int) (*floating.UnavailableError, bool) {
	if pod.node != "" {
		node = pod.node
	}
	a := h.requesterOf(pod)
	choices, err := p.Reserve(a, nodeOf(node))
	defer func() { p.Done(a.UID, choices) }()
	var unavailable *floating.UnavailableError
	if errors.As(err, &unavailable) {
		return unavailable, false
	}
	var wired []netip.Addr
	for _, c := range choices {
		if wired = append(wired, c.Address); c.IsHeld(a.UID) && c.Had.Spec.Holder.Node == node {
			continue
		}
		if writes--; writes < 0 || !p.put(floating.Claimed(c, a, node, metav1.NewTime(h.now))) {
			return nil, false
		}
	}
	for _, f := range p.Extra(a.UID, choices) {
		if !p.put(floating.Ended(f, floating.Dropped(f), metav1.NewTime(h.now))) {
			return nil, false
		}
	}
	changed := !slices.Equal(pod.wired, wired)
	if changed && len(pod.wired) > 0 {
		h.Fatalf("the running pod %s had %v, and gets %v", pod.UID, pod.wired, wired)
	}
	pool, _, _ := p.Pool("web")
	pod.wired, pod.node, pod.blind = wired, node, pod.blind || slices.ContainsFunc(wired, func(a netip.Addr) bool {
		_, known := pool.SegmentOf(a)
		return !known
	})
	return nil, changed
}

func (h *history) ended(pod *livingPod) { delete(h.pods, pod.UID) }

// tend decides about one address, from what the process has read of it; changed says that it wrote.
func (h *history) tend(p *process, address netip.Addr) (changed bool) {
	f := p.Get(address)
	if f == nil || f.Spec.Holder == nil || h.pods[f.Spec.Holder.PodUID] != nil {
		return false
	}
	now, since := h.now, h.now
	if f.Spec.Holder.PodUID == "" {
		since = f.Spec.Holder.Since.Time
	}
	of := floating.WorkloadOf(f.Spec.Holder)
	o := floating.Decide(f, h.stateOf(of), p.Before, since, now)
	if f.Spec.Holder.PodUID == "" && !o.Released {
		return false
	}
	return p.put(floating.Ended(f, o, metav1.NewTime(now)))
}

func (h *history) stateOf(of floating.Workload) floating.State {
	for _, w := range h.workloads {
		if w.Workload == of {
			return w.state
		}
	}
	return floating.State{}
}

// person changes a FloatingIP by hand: it releases a kept address, reserves an address, or deletes a FloatingIP without a holder.
func (h *history) person() {
	f := h.object()
	if f == nil {
		return
	}
	_, reserved := f.Labels[networkv1alpha1.ReservedLabel]
	switch action := rapid.IntRange(0, 3).Draw(h.T, "action"); {
	case action == 0 && f.Spec.Holder != nil && h.pods[f.Spec.Holder.PodUID] == nil:
		f.Spec.Holder = nil
	case action == 1 && f.Spec.Holder == nil:
		h.server.remove(f)
		return
	case action == 2 && !reserved:
		metav1.SetMetaDataLabel(&f.ObjectMeta, networkv1alpha1.ReservedLabel, "")
	default:
		delete(f.Labels, networkv1alpha1.ReservedLabel)
	}
	h.server.write(f)
}

// keepSize does what the operator does for a pool's size and for addresses out of its ranges.
func (h *history) keepSize(p *process) (changed bool) {
	pool, refused, ok := p.Pool("web")
	if !ok || refused != "" {
		return false
	}
	pool.Size = 2
	for _, a := range p.Missing(pool) {
		f := &networkv1alpha1.FloatingIP{ObjectMeta: metav1.ObjectMeta{Name: networkv1alpha1.FloatingIPName(a)}}
		f.Spec.Address, f.Spec.Pool = networkv1alpha1.EgressAddress(a.String()), "web"
		changed = p.put(f) || changed
	}
	for _, f := range p.Surplus(pool) {
		changed = p.server.remove(f) || changed
	}
	return changed
}

// check compares the pods with the locks: an address at a pod's port is the pod's, so that it is at no other.
func (h *history) check() {
	for _, pod := range h.pods {
		for _, a := range pod.wired {
			f := h.server.objects[networkv1alpha1.FloatingIPName(a)]
			if f == nil || f.Spec.Holder == nil || f.Spec.Holder.PodUID != pod.UID {
				h.Fatalf("pod %s has %s, but its FloatingIP says %+v", pod.UID, a, f)
			}
			rack := pod.node[:1]
			inRacks, want := a.Is4() && a.Less(netip.MustParseAddr("192.0.2.8")), "2"
			if a.Less(netip.MustParseAddr("192.0.2.4")) {
				want = "1"
			}
			if !pod.blind && inRacks && rack != want {
				h.Fatalf("pod %s on node %s has %s, which its rack does not carry", pod.UID, pod.node, a)
			}
		}
	}
	for i, p := range h.processes {
		if faults := p.Faults(); len(faults) > 0 || len(p.Pending()) > 0 {
			h.Fatalf("process %d: %s, pending %v", i, strings.Join(faults, "\n"), p.Pending())
		}
	}
}

// rest lets the processes read everything and act until nothing changes.
func (h *history) rest() {
	for _, p := range h.processes {
		p.deliver(len(h.server.log))
		h.readPool(p)
	}
	p := h.processes[0]
	for changed, rounds := true, 0; changed; rounds++ {
		if changed = false; rounds > 1000 {
			h.Fatalf("the processes do not come to rest: %v", h.server.log[len(h.server.log)-10:])
		}
		for _, f := range p.InPool("web") {
			changed = h.tend(p, netip.MustParseAddr(string(f.Spec.Address))) || changed
		}
		h.readPool(p)
		changed = h.keepSize(p) || changed
		p.deliver(len(h.server.log))
		for _, uid := range slices.Sorted(maps.Keys(h.pods)) {
			for _, node := range nodes {
				_, wired := h.claim(p, h.pods[uid], node, 100)
				changed = changed || wired
			}
		}
		h.check()
	}
}

// checkRest checks that nothing is lost: each address has a living pod or a workload that keeps it, and each pod has its
// addresses or an error on every node.
func (h *history) checkRest() {
	p := h.processes[0]
	for _, f := range p.InPool("web") {
		holder := f.Spec.Holder
		switch {
		case holder == nil:
		case holder.PodUID != "" && h.pods[holder.PodUID] == nil:
			h.Fatalf("the ended pod %s has %s", holder.PodUID, f.Name)
		case holder.PodUID != "" && !slices.Contains(h.pods[holder.PodUID].wired, netip.MustParseAddr(string(f.Spec.Address))):
			if _, _, known := p.Pool("web"); known && len(h.pods[holder.PodUID].wired) > 0 {
				h.Fatalf("pod %s holds %s, which it does not use: %v", holder.PodUID, f.Name, h.pods[holder.PodUID].wired)
			}
		case holder.PodUID == "" && (holder.ReleasePolicy == networkv1alpha1.ReleaseWithPod ||
			holder.ReleasePolicy == networkv1alpha1.ReleaseImmutable && holder.UID != h.stateOf(floating.WorkloadOf(holder)).UID):
			h.Fatalf("%s is kept for %+v", f.Name, holder)
		}
	}
	for _, pod := range h.pods {
		if len(pod.wired) > 0 {
			continue
		}
		for _, node := range nodes {
			unavailable, _ := h.claim(p, pod, node, 0)
			if unavailable == nil {
				h.Fatalf("pod %s has no address, and no error on node %s", pod.UID, node)
			}
			if strings.HasPrefix(unavailable.Reason, "all its") && pod.Request.Count == 1 { // others want more than one
				h.checkExhausted(p, node, strings.Contains(unavailable.Reason, "IPv4"))
			}
		}
	}
}

// checkExhausted checks that no address of a family is free anywhere.
func (h *history) checkExhausted(p *process, node string, is4 bool) {
	pool, _, _ := p.Pool("web")
	for _, s := range pool.Segments {
		for a := s.First; a.Is4() == is4 && s.Contains(a); a = a.Next() {
			f := h.server.objects[networkv1alpha1.FloatingIPName(a)]
			if f == nil || f.Spec.Holder == nil && f.Labels[networkv1alpha1.ReservedLabel] == "" && !has(f.Labels, networkv1alpha1.ReservedLabel) {
				h.Fatalf("%s is free, but no address is said to be free, not even on other nodes than %s", a, node)
			}
		}
	}
}

func has(labels map[string]string, key string) bool {
	_, ok := labels[key]
	return ok
}

// checkEmpty ends everything, and checks that every address can be had again.
func (h *history) checkEmpty() {
	h.pods = map[types.UID]*livingPod{}
	for _, w := range h.workloads {
		w.state = floating.State{}
	}
	for _, f := range h.server.objects {
		if f.Spec.Holder != nil && f.Spec.Holder.ReleasePolicy == networkv1alpha1.ReleaseNever || has(f.Labels, networkv1alpha1.ReservedLabel) {
			f = f.DeepCopy()
			f.Spec.Holder, f.Labels = nil, nil
			h.server.write(f)
		}
	}
	h.ranges = blocks
	h.rest()
	p, got := h.processes[1], map[netip.Addr]bool{}
	p.deliver(len(h.server.log))
	for range 50 {
		h.nextPod++
		uid := types.UID(fmt.Sprint("u", h.nextPod))
		h.pods[uid] = &livingPod{Requester: requesterOf("Pod "+string(uid), string(uid)), workload: h.workloads[0]}
		for _, node := range nodes {
			h.claim(p, h.pods[uid], node, 100)
		}
		for _, a := range h.pods[uid].wired {
			got[a] = true
		}
	}
	if counts := p.Counts("web"); len(got) != 12 || counts != (floating.Counts{Total: 16, Used: 12}) {
		h.Fatalf("pods got %d addresses: rack 1 has 6 of each family: %v, counts %+v", len(got), got, counts)
	}
}

// TestHistories runs random sequences of changes with processes that are behind. At every moment an address is at one
// pod's port at most, at rest none is lost, and the counts of each book equal a recount.
func TestHistories(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		h := newHistory(rt, t)
		rt.Repeat(map[string]func(*rapid.T){
			"":         func(*rapid.T) { h.check() },
			"deliver":  func(*rapid.T) { h.process().deliver(rapid.IntRange(1, 9).Draw(h.T, "changes")) },
			"restart":  func(*rapid.T) { p := h.process(); p.restart(); h.readPool(p) },
			"pool":     func(*rapid.T) { h.changePool() },
			"readPool": func(*rapid.T) { h.readPool(h.process()) },
			"keepSize": func(*rapid.T) { h.keepSize(h.process()) },
			"start":    func(*rapid.T) { h.start() },
			"claim": func(*rapid.T) {
				if pod := h.pod(); pod != nil {
					h.claim(h.process(), pod, rapid.SampledFrom(nodes).Draw(h.T, "node"), rapid.IntRange(0, 5).Draw(h.T, "writes"))
				}
			},
			"reserve": func(*rapid.T) {
				if pod := h.pod(); pod != nil {
					node := nodeOf(rapid.SampledFrom(nodes).Draw(h.T, "node"))
					if rapid.Bool().Draw(h.T, "gated") {
						node.Name = ""
					}
					h.reserve(h.process(), pod, node, rapid.IntRange(0, 5).Draw(h.T, "writes"))
				}
			},
			"end": func(*rapid.T) {
				if pod := h.pod(); pod != nil {
					h.ended(pod)
				}
			},
			"tend": func(*rapid.T) {
				p := h.process()
				for _, f := range p.InPool("web") {
					h.tend(p, netip.MustParseAddr(string(f.Spec.Address)))
				}
			},
			"scale": func(*rapid.T) {
				if w := rapid.SampledFrom(h.workloads).Draw(h.T, "workload"); w.state.Replicas >= 0 && w.state.Exists {
					w.state.Replicas = rapid.IntRange(0, 3).Draw(h.T, "replicas")
				}
			},
			"delete": func(*rapid.T) {
				w := rapid.SampledFrom(h.workloads).Draw(h.T, "workload")
				w.state = floating.State{}
				maps.DeleteFunc(h.pods, func(_ types.UID, pod *livingPod) bool { return pod.workload == w })
			},
			"person": func(*rapid.T) { h.person() },
			"time":   func(*rapid.T) { h.now = h.now.Add(3 * time.Second) },
			"rest":   func(*rapid.T) { h.rest(); h.checkRest() },
		})
		h.rest()
		h.checkRest()
		h.checkEmpty()
	})
}
