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
	"github.com/weft-network/weft/pkg/operand"
)

// nodesStage brings the nodes on their way further, and has the next begin where the budget allows one.
func (v *view) nodesStage(s *Step) *wait {
	stage := v.stage()
	for _, name := range onNode {
		if !v.release(s, name) {
			return &wait{stage: stage, object: "DaemonSet/" + name, message: "it gets another template"}
		}
	}
	underWay, waiting := v.sorted()
	if w := v.advance(s, underWay, stage); w != nil && v.over(w) {
		return w
	}
	room := max(0, v.budget(stage)-len(underWay))
	return v.advance(s, append(underWay, waiting[:min(room, len(waiting))]...), stage)
}

// stage is that of the canary until a node has proven that the others may follow.
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

// budget is how many nodes may be on their way.
func (v *view) budget(stage networkv1alpha1.RolloutStage) int {
	if stage == networkv1alpha1.StageCanary || v.Network == nil {
		return 1
	}
	return max(1, int(v.Network.Spec.Upgrade.MaxUnavailable))
}

func (v *view) over(w *wait) bool { return !w.deadline.IsZero() && !v.Now.Before(w.deadline) }

// sorted are the nodes that were begun and have not proven anything, and those that wait: first the ones that work now, since one that does not proves nothing.
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

// untouched nodes have pods to be replaced and none that was.
func (v *view) untouched(n *node) bool {
	some := false
	for _, name := range onNode {
		p := n.pods[name]
		if p.disturbed() || p.image == v.Operand.Image && !v.old(name, p) {
			return false
		}
		some = some || v.old(name, p)
	}
	return some
}

// advance brings each of the nodes one step further. It returns the wait of the one that is worst off: the first whose time is over, else the first.
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

// replace has a pod deleted. One of Open vSwitch that differs in its images alone gets others instead: without its switch a node may not hear of another pod.
func (v *view) replace(s *Step, name string) {
	list := &s.Replace
	for _, n := range v.nodes {
		if p := n.pods[operand.Switches]; p.name == name && v.sameShape(p) {
			list = &s.Restart
		}
	}
	if !slices.Contains(*list, name) {
		*list = append(*list, name)
	}
}

// onNode says what a node waits for, and which of its pods is to be replaced; "": none.
func (v *view) onNode(s *Step, n *node) (w *wait, replace string) {
	if !n.lost.IsZero() {
		return &wait{message: "Kubernetes hears nothing of its kubelet since its pods were replaced", deadline: v.deadline(n.lost)}, ""
	}
	for _, name := range onNode {
		switch p := n.pods[name]; {
		case p.name == "":
			return &wait{message: fmt.Sprintf("the pod of %s is being made", name)}, ""
		case p.ending:
			return &wait{message: fmt.Sprintf("pod %s ends", p.name), deadline: v.deadline(p.since)}, ""
		case v.old(name, p):
			return &wait{message: fmt.Sprintf("pod %s is replaced", p.name)}, p.name
		case !p.ready:
			return &wait{message: because(fmt.Sprintf("pod %s is not ready", p.name), p.trouble), deadline: v.deadline(p.since)}, ""
		}
	}
	return v.proof(s, n), ""
}

// proof asks the node whether its network works, and says what is missing of the answer; nil: nothing.
func (v *view) proof(s *Step, n *node) *wait {
	if v.proven(n) {
		return nil
	} else if n.network == nil {
		return &wait{message: "the operator has not made its NodeNetwork yet", deadline: v.deadline(n.pods[operand.Agents].since)}
	}
	question := networkv1alpha1.ProbeRequest{ID: v.id(n), Peers: v.peers(n), Asked: metav1.NewTime(v.Now.Truncate(time.Second))}
	if before, ok := networkv1alpha1.ReadProbeRequest(n.network.Annotations); ok && before.ID == question.ID {
		question.Asked = before.Asked
	}
	s.Ask[n.name] = question
	w := &wait{deadline: v.deadline(question.Asked.Time)}
	answer := n.network.Status.Probe
	switch {
	case !n.ready:
		w.message, w.deadline = because("it is not ready", n.trouble), v.deadline(latest(question.Asked.Time, n.since))
	case answer == nil || answer.ID != question.ID:
		w.message = "its agent looks whether other nodes are reached"
	default:
		w.message = answer.Error
	}
	return w
}

// proven tells whether a node has all pods as they are wanted, and reaches others since it has these.
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

// id names the node's pods and that of the databases.
func (v *view) id(n *node) string {
	var uids []string
	for _, p := range v.centrals {
		uids = append(uids, p.uid)
	}
	slices.Sort(uids)
	for _, name := range onNode {
		uids = append(uids, n.pods[name].uid)
	}
	uids = append(uids, strconv.Itoa(n.pods[operand.Switches].restarts))
	sum := sha256.Sum256([]byte(strings.Join(uids, " ")))
	return hex.EncodeToString(sum[:8])
}

// asking is how many nodes a node has to reach.
const asking = 2

// peers are the addresses of the next nodes that work.
func (v *view) peers(n *node) (found []networkv1alpha1.IP) {
	at := slices.IndexFunc(v.nodes, func(other node) bool { return other.name == n.name })
	nodes := 0
	for i := 1; i < len(v.nodes) && nodes < asking; i++ {
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
