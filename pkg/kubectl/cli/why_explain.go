package cli

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/annotations"
	"github.com/weft-network/weft/pkg/health"
)

// whyAnswer is the answer of the command why.
type whyAnswer struct {
	Pod  string `json:"pod"`
	Node string `json:"node,omitempty"`
	// Waits means that the pod's network waits, or lacks something.
	Waits bool `json:"waits"`
	// Stage is the stage that waits: scheduling, node, address, link, port, interface, binding, flows, sandbox,
	// secondary networks, host ports. It is empty if none does.
	Stage string `json:"stage,omitempty"`
	// For is the component that completes the stage.
	For string `json:"for,omitempty"`
	// Since is when the wait began, and Seconds how long it has lasted.
	Since   *metav1.Time `json:"since,omitempty"`
	Seconds int64        `json:"seconds,omitempty"`
	// Why is the component's own words.
	Why string `json:"why"`
	// Next is what to do.
	Next []string `json:"next,omitempty"`
	// Notes are further findings.
	Notes []string `json:"notes,omitempty"`
}

// warningsOf returns the warnings about this pod, and not about an earlier one of its name, the newest last.
func warningsOf(pod *corev1.Pod, events []corev1.Event) []corev1.Event {
	found := slices.DeleteFunc(events, func(e corev1.Event) bool {
		uid := e.InvolvedObject.UID
		return e.Type != corev1.EventTypeWarning || e.InvolvedObject.Kind != "Pod" || uid != "" && uid != pod.UID
	})
	slices.SortStableFunc(found, func(a, b corev1.Event) int { return lastSeen(a).Compare(lastSeen(b)) })
	return found
}

// lastSeen returns when an event happened last.
func lastSeen(e corev1.Event) time.Time {
	if e.Series != nil {
		return e.Series.LastObservedTime.Time
	}
	last := e.EventTime.Time
	if e.LastTimestamp.After(last) {
		last = e.LastTimestamp.Time
	}
	return last
}

// explain finds the first stage that waits.
func (f *whyFacts) explain(now time.Time) whyAnswer {
	a := whyAnswer{Pod: f.pod.Namespace + "/" + f.pod.Name, Node: f.pod.Spec.NodeName}
	for _, stage := range []func(*whyAnswer) bool{f.ended, f.gated, f.unscheduled, f.onHost, f.refused, f.attached,
		f.noNode, f.failedEvent, f.waiting} {
		if stage(&a) {
			break
		}
	}
	if a.Since != nil {
		a.Seconds = int64(now.Sub(a.Since.Time).Seconds())
	}
	if a.Waits && f.leads != nil && a.For != "the scheduler" {
		a.Notes = append(a.Notes, f.leads.Error())
		a.Next = append(a.Next, "kubectl weft status")
	}
	for _, found := range annotations.Of("Pod", f.pod.Annotations) {
		a.Notes = append(a.Notes, found.Message)
	}
	a.Notes = append(append(a.Notes, f.stale...), f.policies...)
	if f.network != nil {
		a.Notes = append(a.Notes, linesOf("node "+f.network.Name, f.network.Status.Problems)...)
	}
	if a.Waits && f.unread != "" {
		a.Notes = append(a.Notes, "the OVN databases could not be read: "+f.unread)
	}
	return a
}

// wait describes a stage that waits.
func (a *whyAnswer) wait(stage, component string, since metav1.Time, why string, next ...string) bool {
	a.Waits, a.Stage, a.For, a.Why, a.Next = true, stage, component, why, next
	if !since.IsZero() {
		a.Since = &since
	}
	return true
}

func (f *whyFacts) ended(a *whyAnswer) bool {
	if f.pod.Status.Phase != corev1.PodSucceeded && f.pod.Status.Phase != corev1.PodFailed {
		return false
	}
	a.Why = fmt.Sprintf("the pod has ended (%s), and its address is free", f.pod.Status.Phase)
	return true
}

// gated is about a pod that gets its addresses before it is scheduled.
func (f *whyFacts) gated(a *whyAnswer) bool {
	gate := func(g corev1.PodSchedulingGate) bool { return g.Name == networkv1alpha1.FloatingGate }
	if !slices.ContainsFunc(f.pod.Spec.SchedulingGates, gate) {
		return false
	}
	since, why := f.pod.CreationTimestamp, "the operator has not chosen an address yet"
	if c := f.condition(networkv1alpha1.PodFloatingIP); c != nil && c.Status == corev1.ConditionFalse {
		since, why = c.LastTransitionTime, c.Message
	}
	return a.wait("address", "an address of an IPPool", since, "the scheduling gate "+networkv1alpha1.FloatingGate+" holds the pod: "+why,
		"free an address, or give the pool more ranges: kubectl get ippools; kubectl weft ip list")
}

func (f *whyFacts) unscheduled(a *whyAnswer) bool {
	if f.pod.Spec.NodeName != "" {
		return false
	}
	since, why := f.pod.CreationTimestamp, "the pod has no node yet"
	if c := f.condition(corev1.PodScheduled); c != nil && c.Status == corev1.ConditionFalse {
		since, why = c.LastTransitionTime, c.Message
	}
	return a.wait("scheduling", "the scheduler", since, why, "kubectl describe pod -n "+f.pod.Namespace+" "+f.pod.Name)
}

func (f *whyFacts) condition(kind corev1.PodConditionType) *corev1.PodCondition {
	for i := range f.pod.Status.Conditions {
		if c := &f.pod.Status.Conditions[i]; c.Type == kind {
			return c
		}
	}
	return nil
}

func (f *whyFacts) onHost(a *whyAnswer) bool {
	if !f.pod.Spec.HostNetwork {
		return false
	}
	a.Why = "the pod uses its node's network, so Weft gives it no port"
	return true
}

// refusedStages are Weft's conditions of pods, with the stage, the component and the cure.
var refusedStages = []struct {
	kind                   corev1.PodConditionType
	stage, component, next string
}{
	{networkv1alpha1.PodPortReady, "address", "the OVN northbound database", "remove the row that the message names; Weft retries by itself"},
	{networkv1alpha1.PodRequestsGranted, "address", "what the pod requests", "do what the message says: correct the pod's annotation, " +
		"or see to a free address: kubectl weft ip list"},
	{networkv1alpha1.PodNetworksAllocated, "secondary networks", "the operator", "correct the pod's annotation or its Network"},
	{networkv1alpha1.PodNetworksAttached, "secondary networks", "weft-agent",
		"see the node's link of that network; the node retries by itself"},
	{networkv1alpha1.PodHostPortsReady, "host ports", "the operator", "choose another host port; the rest of the pod's network works"},
}

func (f *whyFacts) refused(a *whyAnswer) bool {
	for _, r := range refusedStages {
		if c := f.condition(r.kind); c != nil && c.Status == corev1.ConditionFalse {
			return a.wait(r.stage, r.component, c.LastTransitionTime, c.Message, r.next)
		}
	}
	return false
}

// attached is about a pod whose sandbox has a network.
func (f *whyFacts) attached(a *whyAnswer) bool {
	c := f.condition(corev1.PodReadyToStartContainers)
	if len(f.pod.Status.PodIPs) == 0 || c != nil && c.Status == corev1.ConditionFalse {
		return false
	}
	failed := slices.IndexFunc(f.events, func(e corev1.Event) bool { return e.Reason == "FailedInterfaceCheck" })
	if failed >= 0 && f.interfacesFail() {
		e := f.events[failed]
		return a.wait("interface", "weft-agent", metav1.NewTime(lastSeen(e)), e.Message,
			"delete the pod, or restore what was changed inside it")
	}
	if f.port != nil && !f.port.Up {
		stage, component := f.port.WaitsFor()
		return a.wait(stage, component, metav1.Time{}, "the pod ran, and its port is not in the dataplane now", "kubectl weft status")
	}
	a.Why = "the pod has its network"
	for _, s := range slices.Concat(f.pod.Status.InitContainerStatuses, f.pod.Status.ContainerStatuses) {
		if w := s.State.Waiting; w != nil {
			a.Notes = append(a.Notes, strings.TrimSuffix(fmt.Sprintf("container %s waits: %s: %s", s.Name, w.Reason, w.Message), ": "))
		}
	}
	return true
}

// interfacesFail reports whether the node's agent reports a pod whose interface differs.
func (f *whyFacts) interfacesFail() bool {
	return f.network != nil && slices.ContainsFunc(f.network.Status.Conditions, func(c metav1.Condition) bool {
		return c.Type == "InterfacesReady" && c.Status == metav1.ConditionFalse && strings.Contains(c.Message, f.pod.Name)
	})
}

func (f *whyFacts) noNode(a *whyAnswer) bool {
	since := f.pod.CreationTimestamp
	if c := f.condition(corev1.PodScheduled); c != nil {
		since = c.LastTransitionTime
	}
	switch node := f.pod.Spec.NodeName; {
	case f.network == nil:
		return a.wait("node", "the operator", since, "node "+node+" has no NodeNetwork", "kubectl describe node "+node)
	case len(f.network.Spec.PodSubnets) == 0:
		return a.wait("node", "the operator", since, "node "+node+" has no pod subnet", "kubectl weft status")
	case f.network.Status.Chassis == "":
		return a.wait("node", "weft-agent", since, "the agent of node "+node+" has not reported its chassis",
			"kubectl get nodenetwork "+node+" -o wide")
	}
	return false
}

// missing matches the end of an agent's event: the stage, its component and how long the ADD waited.
var missing = regexp.MustCompile(`^(.*) \(stage (\S+), of (.*), has not come after ([0-9.]+) s\)`)

// failedEvent is about the newest warning that names a stage.
func (f *whyFacts) failedEvent(a *whyAnswer) bool {
	for _, e := range slices.Backward(f.events) {
		since := metav1.NewTime(firstSeen(e))
		switch e.Reason {
		case "FailedAddressAllocation":
			return a.wait("address", "a free address", since, e.Message, "free an address, or correct the pod's annotation")
		case "InvalidBandwidth":
			return a.wait("address", "the pod's annotation", since, e.Message, "correct the annotation; the pod waits")
		case "FailedPortCreation":
			return a.wait("address", "the OVN northbound database", since, e.Message, "kubectl weft status")
		case "FailedInterfaceCreation", "FailedCreatePodSandBox":
			text := e.Message
			if at := strings.Index(text, "port "); at >= 0 && e.Reason == "FailedCreatePodSandBox" {
				text = text[at:]
			}
			if found := missing.FindStringSubmatch(text); found != nil {
				return a.wait(found[2], found[3], since, found[1], nextOf(found[2], f.pod.Spec.NodeName))
			}
			if strings.Contains(text, " is used already: ") {
				return a.wait("link", "an address that no host of the segment uses", since, text, "find the host by its MAC; "+
					"or request another address; or exclude the address from its Network or IPPool, and recreate the pod")
			}
			if e.Reason == "FailedCreatePodSandBox" && f.port != nil && !f.port.Up {
				return false // the databases know better than the runtime's words
			}
			return a.wait("sandbox", "the container runtime", since, e.Message, nextOf("link", f.pod.Spec.NodeName))
		}
	}
	return false
}

// firstSeen returns when an event happened first.
func firstSeen(e corev1.Event) time.Time {
	for _, at := range []time.Time{e.FirstTimestamp.Time, e.EventTime.Time} {
		if !at.IsZero() {
			return at
		}
	}
	return e.CreationTimestamp.Time
}

// nextOf returns the next step for a stage.
func nextOf(stage, node string) string {
	switch stage {
	case "address":
		return "kubectl weft status: NoLeader, DatabaseUnavailable, NorthdSilent and ChangesNotInstalled have their cures there"
	case "binding", "flows":
		return "see ovn-controller on node " + node + ": kubectl get nodenetwork " + node + " -o wide, and its log: " + health.ControllerLog
	case "port", "interface":
		return "see Open vSwitch on node " + node + ": kubectl get nodenetwork " + node + " -o wide, and its log: " + health.SwitchLog
	}
	return "see the agent's log on node " + node
}

// waiting is about a pod of which no event says anything: how far its port has come.
func (f *whyFacts) waiting(a *whyAnswer) bool {
	since := f.pod.CreationTimestamp
	if c := f.condition(corev1.PodScheduled); c != nil {
		since = c.LastTransitionTime
	}
	if f.port == nil {
		return a.wait("sandbox", "kubelet or the container runtime", since, "the pod has no address yet, and nothing was reported",
			nextOf("link", f.pod.Spec.NodeName))
	}
	stage, component := f.port.WaitsFor()
	return a.wait(stage, component, since, portWords[stage], nextOf(stage, f.pod.Spec.NodeName))
}

var portWords = map[string]string{
	"address": "the southbound database does not have the pod's port",
	"binding": "the port is in the southbound database, and ovn-controller has not claimed it: either kubelet has not asked for the " +
		"network yet, or the node's Open vSwitch does not have the interface",
	"flows":   "ovn-controller has claimed the port, and has not installed its flows",
	"sandbox": "the port is up; the container runtime has not reported the sandbox yet",
}

// text renders the answer for people: the stage in the first line.
func (a whyAnswer) text() string {
	var b strings.Builder
	if a.Waits {
		fmt.Fprintf(&b, "%s waits for %s (stage %s%s)\n", a.Pod, a.For, a.Stage, a.since())
		fmt.Fprintf(&b, "  %s\n", a.Why)
	} else {
		fmt.Fprintf(&b, "%s: %s\n", a.Pod, a.Why)
	}
	for _, next := range a.Next {
		fmt.Fprintf(&b, "  -> %s\n", next)
	}
	for _, note := range a.Notes {
		fmt.Fprintf(&b, "note: %s\n", note)
	}
	return b.String()
}

func (a whyAnswer) since() string {
	where := ""
	if a.Node != "" {
		where = " on node " + a.Node
	}
	if a.Since == nil {
		return where
	}
	return fmt.Sprintf("%s, since %s, %s ago", where, a.Since.UTC().Format(time.RFC3339), time.Duration(a.Seconds)*time.Second)
}
