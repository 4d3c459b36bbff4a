package rollout

import (
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/install/render"
)

// Step is the next step of a rollout.
type Step struct {
	// Apply lists the workloads to apply in their wanted form.
	Apply []string
	// Replace lists the pods to delete, Restart the pods of Open vSwitch that get new images.
	Replace, Restart []string
	// StartPreflight creates the preflight's pod. DeletePreflight deletes it.
	StartPreflight, DeletePreflight bool
	// Probes are the probe requests by node.
	Probes map[string]networkv1alpha1.ProbeRequest
	// Status is the progress of the rollout.
	Status networkv1alpha1.RolloutStatus
	// Recheck is when to call Plan again without a change. It is zero if only a change matters.
	Recheck time.Time
}

// wait is what a stage waits for. It is nil when the stage is done.
type wait struct {
	stage           networkv1alpha1.RolloutStage
	object, message string
	deadline        time.Time // zero: no deadline
}

// newTemplate is the message of a wait for the controller of a workload to observe its new template.
const newTemplate = "its pod template is being updated"

// Plan returns the next step.
func Plan(f Facts) Step {
	v := newView(f)
	s := Step{Probes: map[string]networkv1alpha1.ProbeRequest{}}
	v.repair(&s)
	s.DeletePreflight = v.begun() && v.preflightPod().pod != nil
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
		s.Recheck = w.deadline
		s.Status = v.status(networkv1alpha1.RolloutProgressing, *w)
	}
	return s
}

// repair applies workloads that are missing or already have the wanted image, and replaces pods of that image that
// differ from the wanted ones. It replaces pods that are not ready at once, other pods on a tenth of the nodes at a
// time, and Open vSwitch, which may carry the node's own traffic, on one node at a time.
func (v *view) repair(s *Step) {
	for name := range v.Wanted {
		if v.There[name] == nil || v.released(name) {
			s.Apply = append(s.Apply, name)
		}
	}
	slices.Sort(s.Apply)
	if v.repairable(render.Central, v.central) {
		s.Replace = append(s.Replace, v.central.name)
	}
	v.repairZones(s)
	v.repairRelays(s)
	for _, name := range onNode {
		budget := max(1, len(v.nodes)/10)
		if name == render.Switches {
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
	return v.old(name, p) && v.isCurrent(name, p) && v.released(name) && v.settled(name)
}

// nothingOld reports whether everything that exists has the wanted image and settings or need not have them.
func (v *view) nothingOld() bool {
	for name := range v.Wanted {
		if v.There[name] != nil && !v.released(name) {
			return false
		}
	}
	for _, n := range v.nodes {
		for _, name := range onNode {
			if p := n.pods[name]; v.old(name, p) && !v.isCurrent(name, p) {
				return false
			}
		}
	}
	for _, z := range v.zones() {
		if p, name := v.centralIn(z), render.CentralOf(z.Name); v.old(name, p) && !v.isCurrent(name, p) {
			return false
		}
	}
	for _, of := range v.relayWorkloads() {
		for _, p := range v.relays[of.name] {
			if v.old(of.name, p) && !v.isCurrent(of.name, p) {
				return false
			}
		}
	}
	return !v.old(render.Central, v.central) || v.isCurrent(render.Central, v.central)
}

// wasComplete reports whether no rollout is under way. The first installation is not a rollout.
func (v *view) wasComplete() bool {
	previous := v.previous()
	return previous == nil || previous.State == networkv1alpha1.RolloutComplete && previous.Image == v.Operand.Image &&
		previous.Settings == v.Settings
}

// previous returns the last recorded status, or nil.
func (v *view) previous() *networkv1alpha1.RolloutStatus {
	if v.Network == nil {
		return nil
	}
	return v.Network.Status.Rollout
}

// begun reports whether a workload of the wanted version was already released. The workloads of zones do not count, because a new zone
// gets the wanted version even if the rollout may not begin.
func (v *view) begun() bool {
	for name := range v.Wanted {
		if !v.isOfZone(name) && v.released(name) {
			return true
		}
	}
	return false
}

// next runs the stages in order up to the first that is not done.
func (v *view) next(s *Step) *wait {
	stages := []func(*Step) *wait{v.encryptionStage, v.troubledZones, v.nodesStage, v.databases, v.zoneDatabases, v.relaysStage,
		v.operatorStage, v.zoneOperators}
	if v.databasesFirst() {
		stages = []func(*Step) *wait{v.encryptionStage, v.databases, v.zoneDatabases, v.relaysStage, v.nodesStage, v.operatorStage,
			v.zoneOperators}
	}
	for _, stage := range stages {
		if w := stage(s); w != nil {
			return w
		}
	}
	return nil
}

// databasesFirst reports whether the databases are replaced before the nodes: an older OVN is wanted, or the
// databases are not ready and so cannot provide the flows of a node.
func (v *view) databasesFirst() bool {
	return v.newerThanWanted() || v.central.disturbed() || !v.central.ready
}

// databases replaces the databases' pods if they changed.
func (v *view) databases(s *Step) *wait { return v.replaceCentral(s, render.Central, v.central) }

// replaceCentral replaces a pod of databases if it changed.
func (v *view) replaceCentral(s *Step, name string, p pod) *wait {
	w := &wait{stage: networkv1alpha1.StageDatabases, object: "StatefulSet/" + name, deadline: v.deadline(p.since)}
	switch {
	case p.name == "":
		w.message, w.deadline = "its pod is being created", time.Time{}
	case p.ending:
		w.message = "its pod is terminating"
	case !v.release(s, name):
		w.message, w.deadline = newTemplate, time.Time{}
	case v.old(name, p):
		s.Replace = append(s.Replace, p.name)
		w.message, w.deadline = "its pod is being replaced", time.Time{}
	case !p.ready:
		w.message = because("its pod is not ready", p.trouble)
	default:
		return nil
	}
	return w
}

// operatorStage replaces the network's operator.
func (v *view) operatorStage(s *Step) *wait { return v.replaceOperator(s, render.Operator, v.operator) }

// replaceOperator replaces an operator. pods are its pods.
func (v *view) replaceOperator(s *Step, name string, pods []pod) *wait {
	w := &wait{stage: networkv1alpha1.StageOperator, object: "Deployment/" + name}
	if !v.released(name) {
		s.Apply = append(s.Apply, name)
		w.message = newTemplate
		return w
	}
	var last pod
	for _, p := range pods {
		if v.old(name, p) {
			w.message = "its previous pod is terminating"
			return w
		}
		last = later(last, p)
	}
	switch {
	case last.disturbed():
		w.message = "its pod is being created"
	case !last.ready:
		w.message, w.deadline = because("its pod is not ready", last.trouble), v.deadline(last.since)
	default:
		return nil
	}
	return w
}

// release applies a workload, and reports whether its controller has observed it.
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

// status returns the status to record. Since changes only with the state, the stage, the image or the settings.
func (v *view) status(state networkv1alpha1.RolloutState, w wait) networkv1alpha1.RolloutStatus {
	done := 0
	for i := range v.nodes {
		if complete := state == networkv1alpha1.RolloutComplete; complete || v.proven(&v.nodes[i]) {
			done++
		}
	}
	now := networkv1alpha1.RolloutStatus{
		State: state, Version: v.Operand.Version, Image: v.Operand.Image, Settings: v.Settings,
		Stage: w.stage, Object: w.object, Message: w.message,
		Nodes: int32(len(v.nodes)), NodesDone: int32(done), Northd: v.central.northd, Since: metav1.NewTime(v.Now.Truncate(time.Second)),
	}
	previous := v.previous()
	if previous != nil && now.Northd == "" {
		now.Northd = previous.Northd // the databases' pod is being replaced
	}
	if now.Difference = v.difference; previous != nil && now.Difference == "" && previous.Image == now.Image {
		now.Difference = previous.Difference
	}
	if state == networkv1alpha1.RolloutStopped && !w.deadline.IsZero() {
		now.Message = fmt.Sprintf("%s; this has taken longer than %s", w.message, v.Patience)
	}
	if previous != nil && previous.State == now.State && previous.Stage == now.Stage && previous.Image == now.Image &&
		previous.Settings == now.Settings {
		now.Since = previous.Since
	}
	return now
}
