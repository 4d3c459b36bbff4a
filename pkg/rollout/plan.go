package rollout

import (
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/operand"
	"github.com/weft-network/weft/pkg/programs"
)

// Step is what is done now.
type Step struct {
	// Apply are the workloads that may be as they are wanted.
	Apply []string
	// Replace are pods to be deleted, and Restart those of Open vSwitch that get other images.
	Replace, Restart []string
	// Compare begins a preflight, and Forget removes the one that there is.
	Compare, Forget bool
	// Ask are requests for nodes, by name.
	Ask map[string]networkv1alpha1.ProbeRequest
	// Status is how far it is.
	Status networkv1alpha1.RolloutStatus
	// Again is when to look again if nothing happens; zero: then there is nothing to look for.
	Again time.Time
}

// wait is what a stage waits for; nil: it is done.
type wait struct {
	stage           networkv1alpha1.RolloutStage
	object, message string
	deadline        time.Time // zero: it may take any time
}

// Plan decides.
func Plan(f Facts) Step {
	v := look(f)
	s := Step{Ask: map[string]networkv1alpha1.ProbeRequest{}}
	v.repair(&s)
	s.Forget = v.begun() && v.preflightPod().pod != nil
	if v.nothingOld() && v.wasComplete() {
		s.Status = v.status(networkv1alpha1.RolloutComplete, wait{})
		return s
	}
	if !v.begun() {
		if why := v.preflight(); why != nil {
			s.Status = v.status(networkv1alpha1.RolloutBlocked, *why)
			return s
		}
		if why, blocked := v.compare(&s); blocked {
			s.Status = v.status(networkv1alpha1.RolloutBlocked, *why)
			return s
		} else if why != nil {
			s.Status = v.status(networkv1alpha1.RolloutProgressing, *why)
			return s
		}
	}
	w := v.next(&s)
	switch {
	case w == nil:
		s.Status = v.status(networkv1alpha1.RolloutComplete, wait{})
	case !w.deadline.IsZero() && !f.Now.Before(w.deadline):
		s.Replace, s.Restart = nil, nil
		s.Status = v.status(networkv1alpha1.RolloutStopped, *w)
	default:
		s.Again = w.deadline
		s.Status = v.status(networkv1alpha1.RolloutProgressing, *w)
	}
	return s
}

// repair applies what is of the wanted image or not there at all. Pods of that image that are not the wanted ones follow: those that do not work at
// once, of the others so many as a tenth of the nodes, and of Open vSwitch, which may carry the node's own traffic, one.
func (v *view) repair(s *Step) {
	for name := range v.Wanted {
		if v.There[name] == nil || v.released(name) {
			s.Apply = append(s.Apply, name)
		}
	}
	slices.Sort(s.Apply)
	if v.repairable(operand.Central, v.central) {
		s.Replace = append(s.Replace, v.central.name)
	}
	for _, name := range onNode {
		budget := max(1, len(v.nodes)/10)
		if name == operand.Switches {
			budget = 1
		}
		for _, n := range v.nodes {
			if p := n.pods[name]; p.disturbed() || !p.ready {
				budget--
			}
		}
		for _, n := range v.nodes {
			p := n.pods[name]
			if !v.repairable(name, p) || p.ready && budget <= 0 {
				continue
			}
			if p.ready {
				budget--
			}
			v.replace(s, p.name)
		}
	}
}

func (v *view) repairable(name string, p pod) bool {
	return v.old(name, p) && p.image == v.Operand.Image && v.released(name) && v.settled(name)
}

// nothingOld tells whether all that is there is of the wanted image, or need not be.
func (v *view) nothingOld() bool {
	for name := range v.Wanted {
		if v.There[name] != nil && !v.released(name) {
			return false
		}
	}
	for _, n := range v.nodes {
		for _, name := range onNode {
			if p := n.pods[name]; v.old(name, p) && p.image != v.Operand.Image {
				return false
			}
		}
	}
	return !v.old(operand.Central, v.central) || v.central.image == v.Operand.Image
}

// wasComplete tells whether no rollout is to be brought to its end. The first installation is none.
func (v *view) wasComplete() bool {
	before := v.before()
	return before == nil || before.State == networkv1alpha1.RolloutComplete && before.Image == v.Operand.Image
}

func (v *view) before() *networkv1alpha1.RolloutStatus {
	if v.Network == nil {
		return nil
	}
	return v.Network.Status.Rollout
}

// begun tells whether something was released already.
func (v *view) begun() bool {
	for name := range v.Wanted {
		if v.released(name) {
			return true
		}
	}
	return false
}

// next takes the stages in their order up to the first that is not done.
func (v *view) next(s *Step) *wait {
	stages := []func(*Step) *wait{v.nodesStage, v.databases, v.operatorStage}
	if v.databasesFirst() {
		stages = []func(*Step) *wait{v.databases, v.nodesStage, v.operatorStage}
	}
	for _, stage := range stages {
		if w := stage(s); w != nil {
			return w
		}
	}
	return nil
}

// databasesFirst: an older OVN is wanted, or there is nobody now who could make a node's flows.
func (v *view) databasesFirst() bool {
	older, _ := programs.Newer(v.central.northd, v.Operand.Programs[programs.Northd].Version)
	return older || v.central.disturbed() || !v.central.ready
}

// databases replaces the databases' pod where it is another one.
func (v *view) databases(s *Step) *wait {
	const name = operand.Central
	w := &wait{stage: networkv1alpha1.StageDatabases, object: "StatefulSet/" + name, deadline: v.deadline(v.central.since)}
	switch p := v.central; {
	case p.name == "":
		w.message, w.deadline = "its pod is being made", time.Time{}
	case p.ending:
		w.message = "its pod ends"
	case !v.release(s, name):
		w.message, w.deadline = "it gets another template", time.Time{}
	case v.old(name, p):
		s.Replace = append(s.Replace, p.name)
		w.message, w.deadline = "its pod is replaced", time.Time{}
	case !p.ready:
		w.message = because("its pod is not ready", p.trouble)
	default:
		return nil
	}
	return w
}

// operatorStage replaces the operator of the network.
func (v *view) operatorStage(s *Step) *wait {
	const name = operand.Operator
	w := &wait{stage: networkv1alpha1.StageOperator, object: "Deployment/" + name}
	if !v.released(name) {
		s.Apply = append(s.Apply, name)
		w.message = "it gets another template"
		return w
	}
	var last pod
	for _, p := range v.operator {
		if v.old(name, p) {
			w.message = "its former pod ends"
			return w
		}
		last = later(last, p)
	}
	switch {
	case last.disturbed():
		w.message = "its pod is being made"
	case !last.ready:
		w.message, w.deadline = because("its pod is not ready", last.trouble), v.deadline(last.since)
	default:
		return nil
	}
	return w
}

// release applies a workload, and tells whether that is over.
func (v *view) release(s *Step, name string) bool {
	if v.released(name) {
		return v.settled(name)
	}
	s.Apply = append(s.Apply, name)
	return false
}

func (v *view) deadline(since time.Time) time.Time { return since.Add(v.Patience) }

func because(what, why string) string {
	if why == "" {
		return what
	}
	return what + ": " + why
}

// status says where it is; state and stage keep their time.
func (v *view) status(state networkv1alpha1.RolloutState, w wait) networkv1alpha1.RolloutStatus {
	done := 0
	for i := range v.nodes {
		if complete := state == networkv1alpha1.RolloutComplete; complete || v.proven(&v.nodes[i]) {
			done++
		}
	}
	now := networkv1alpha1.RolloutStatus{State: state, Version: v.Operand.Version, Image: v.Operand.Image, Stage: w.stage, Object: w.object, Message: w.message,
		Nodes: int32(len(v.nodes)), NodesDone: int32(done), Northd: v.central.northd, Since: metav1.NewTime(v.Now.Truncate(time.Second))}
	before := v.before()
	if before != nil && now.Northd == "" {
		now.Northd = before.Northd // while its pod is replaced
	}
	if now.Difference = v.difference; before != nil && now.Difference == "" && before.Image == now.Image {
		now.Difference = before.Difference
	}
	if state == networkv1alpha1.RolloutStopped && !w.deadline.IsZero() {
		now.Message = fmt.Sprintf("%s; that takes longer than %s", w.message, v.Patience)
	}
	if before != nil && before.State == now.State && before.Stage == now.Stage && before.Image == now.Image {
		now.Since = before.Since
	}
	return now
}
