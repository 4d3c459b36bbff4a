package rollout

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/install/render"
)

// nodesStage advances the nodes under way, and starts further nodes as the budget allows.
func (v *view) nodesStage(s *Step) *wait {
	stage := v.stage()
	for _, name := range onNode {
		if !v.release(s, name) {
			return &wait{stage: stage, object: "DaemonSet/" + name, message: newTemplate}
		}
	}
	underWay, waiting := v.sorted()
	if w := v.advance(s, underWay, stage); w != nil && v.over(w) {
		return w
	}
	room := max(0, v.budget(stage)-len(underWay))
	return v.advance(s, append(underWay, waiting[:min(room, len(waiting))]...), stage)
}

// stage returns StageCanary until a node has proven that the others may follow, then StageNodes.
func (v *view) stage() networkv1alpha1.RolloutStage {
	proven := slices.ContainsFunc(v.nodes, func(n node) bool { return v.proven(&n) })
	old := slices.ContainsFunc(v.nodes, func(n node) bool {
		return slices.ContainsFunc(onNode, func(name string) bool { return v.old(name, n.pods[name]) })
	})
	if old && !proven {
		return networkv1alpha1.StageCanary
	}
	return networkv1alpha1.StageNodes
}

// budget returns how many nodes may be under way at a time.
func (v *view) budget(stage networkv1alpha1.RolloutStage) int {
	if stage == networkv1alpha1.StageCanary || v.Network == nil {
		return 1
	}
	return max(1, int(v.Network.Spec.Upgrade.MaxUnavailable))
}

func (v *view) over(w *wait) bool { return !w.deadline.IsZero() && !v.Now.Before(w.deadline) }

// sorted returns the nodes under way and the nodes that wait. Ready nodes wait first in line, because a node that is
// not ready proves nothing.
func (v *view) sorted() (underWay, waiting []*node) {
	for i := range v.nodes {
		switch n := &v.nodes[i]; {
		case v.proven(n):
		case v.untouched(n):
			waiting = append(waiting, n)
		default:
			underWay = append(underWay, n)
		}
	}
	slices.SortStableFunc(waiting, func(a, b *node) int { return boolOf(b.ready) - boolOf(a.ready) })
	return underWay, waiting
}

// untouched reports whether the node has pods to replace and none was replaced yet. Pods of a workload that stays as it is say nothing.
func (v *view) untouched(n *node) bool {
	some := false
	for _, name := range onNode {
		p := n.pods[name]
		if p.disturbed() || v.changes(name) && v.isCurrent(name, p) && !v.old(name, p) {
			return false
		}
		some = some || v.old(name, p)
	}
	return some
}

// changes reports whether pods of a workload are replaced. For another image, all workloads' are.
func (v *view) changes(name string) bool {
	return slices.ContainsFunc(v.nodes, func(n node) bool {
		return v.old(name, n.pods[name]) || slices.ContainsFunc(onNode, func(other string) bool {
			return v.old(other, n.pods[other]) && n.pods[other].image != v.Operand.Image
		})
	})
}

// advance advances each of the nodes by a step. It returns the worst wait: the first whose time is over, else the
// first. If a wait is over, no pod is replaced.
func (v *view) advance(s *Step, nodes []*node, stage networkv1alpha1.RolloutStage) (worst *wait) {
	var replace []string
	for _, n := range nodes {
		w, pod := v.onNode(s, n)
		if w == nil {
			continue
		}
		if w.stage, w.object = stage, "Node/"+n.name; worst == nil || !v.over(worst) && v.over(w) {
			worst = w
		}
		if pod != "" {
			replace = append(replace, pod)
		}
	}
	if worst == nil || !v.over(worst) {
		for _, name := range replace {
			v.replace(s, name)
		}
	}
	return worst
}

// replace schedules the deletion of a pod. A pod of Open vSwitch that differs only in its images is restarted
// instead, because without its switch a node may have no network to learn of a new pod.
func (v *view) replace(s *Step, name string) {
	list := &s.Replace
	for _, n := range v.nodes {
		if p := n.pods[render.Switches]; p.name == name && v.sameShape(p) {
			list = &s.Restart
		}
	}
	if !slices.Contains(*list, name) {
		*list = append(*list, name)
	}
}

// onNode returns what a node waits for, and its pod to replace, if any.
func (v *view) onNode(s *Step, n *node) (w *wait, replace string) {
	if !n.lost.IsZero() {
		return &wait{message: "its kubelet has not reported since its pods were replaced", deadline: v.deadline(n.lost)}, ""
	}
	for _, name := range onNode {
		switch p := n.pods[name]; {
		case p.name == "":
			return &wait{message: fmt.Sprintf("the pod of %s is being created", name)}, ""
		case p.ending:
			return &wait{message: fmt.Sprintf("pod %s is terminating", p.name), deadline: v.deadline(p.since)}, ""
		case v.old(name, p):
			return &wait{message: fmt.Sprintf("pod %s is being replaced", p.name)}, p.name
		case !p.ready:
			return &wait{message: because(fmt.Sprintf("pod %s is not ready", p.name), p.trouble), deadline: v.deadline(p.since)}, ""
		}
	}
	return v.proof(s, n), ""
}

// proof requests the node to probe its network, and returns what its answer lacks. It returns nil when the node is
// proven.
func (v *view) proof(s *Step, n *node) *wait {
	if v.proven(n) {
		return nil
	} else if n.network == nil {
		return &wait{message: "the operator has not created its NodeNetwork yet", deadline: v.deadline(n.pods[render.Agents].since)}
	}
	request := networkv1alpha1.ProbeRequest{ID: v.id(n), Peers: v.peers(n), Asked: metav1.NewTime(v.Now.Truncate(time.Second))}
	if previous, ok := networkv1alpha1.ReadProbeRequest(n.network.Annotations); ok && previous.ID == request.ID {
		request.Asked = previous.Asked
	}
	s.Probes[n.name] = request
	w := &wait{deadline: v.deadline(request.Asked.Time)}
	answer := n.network.Status.Probe
	switch {
	case !n.ready:
		w.message, w.deadline = because("it is not ready", n.trouble), v.deadline(latest(request.Asked.Time, n.since))
	case answer == nil || answer.ID != request.ID:
		w.message = "its agent is probing other nodes"
	default:
		w.message = answer.Error
	}
	return w
}

// proven reports whether a node has all wanted pods, and has reached other nodes since then.
func (v *view) proven(n *node) bool {
	for _, name := range onNode {
		if p := n.pods[name]; p.disturbed() || v.old(name, p) || !p.ready && n.lost.IsZero() {
			return false
		}
	}
	if n.network == nil || !n.ready && n.lost.IsZero() {
		return false
	}
	answer := n.network.Status.Probe
	return answer != nil && answer.ID == v.id(n) && answer.Error == ""
}

// id identifies the node's pods together with the pods of the databases that the node uses.
func (v *view) id(n *node) string {
	var uids []string
	for _, p := range v.centralsOf(n) {
		uids = append(uids, p.uid)
	}
	slices.Sort(uids)
	for _, name := range onNode {
		uids = append(uids, n.pods[name].uid)
	}
	uids = append(uids, strconv.Itoa(n.pods[render.Switches].restarts))
	sum := sha256.Sum256([]byte(strings.Join(uids, " ")))
	return hex.EncodeToString(sum[:8])
}

// probedNodes is how many other nodes a node must reach.
const probedNodes = 2

// peers returns the addresses of the next ready nodes.
func (v *view) peers(n *node) (found []networkv1alpha1.IP) {
	at := slices.IndexFunc(v.nodes, func(other node) bool { return other.name == n.name })
	nodes := 0
	for i := 1; i < len(v.nodes) && nodes < probedNodes; i++ {
		peer := v.nodes[(at+i)%len(v.nodes)]
		if !peer.ready || peer.network == nil {
			continue
		}
		nodes++
		for _, a := range peer.network.Spec.ManagementPort.Addresses {
			if prefix, err := a.Prefix(); err == nil {
				found = append(found, networkv1alpha1.IP(prefix.Addr().String()))
			}
		}
	}
	return found
}

func boolOf(b bool) int {
	if b {
		return 1
	}
	return 0
}
