package cli

import (
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/trace"
)

var whyNow = time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)

// whyPod returns a pod that was scheduled to n1 two minutes ago.
func whyPod(change func(*corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "web-0", UID: "uid",
		CreationTimestamp: metav1.NewTime(whyNow.Add(-3 * time.Minute))}, Spec: corev1.PodSpec{NodeName: "n1"}}
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue,
		LastTransitionTime: metav1.NewTime(whyNow.Add(-2 * time.Minute))}}
	if change != nil {
		change(pod)
	}
	return pod
}

func whyNetwork() *networkv1alpha1.NodeNetwork {
	nn := &networkv1alpha1.NodeNetwork{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}
	nn.Spec.PodSubnets, nn.Status.Chassis = []networkv1alpha1.CIDR{"10.244.0.0/24"}, "chassis-1"
	return nn
}

func warning(reason, message string, age time.Duration) corev1.Event {
	return corev1.Event{Type: corev1.EventTypeWarning, Reason: reason, Message: message,
		InvolvedObject: corev1.ObjectReference{Kind: "Pod", UID: "uid"},
		FirstTimestamp: metav1.NewTime(whyNow.Add(-age)), LastTimestamp: metav1.NewTime(whyNow.Add(-age))}
}

// Each answer begins with the stage that waits, its component and since when.
func TestWhy(t *testing.T) {
	const binding = "port demo_web-0: ovn-controller has not claimed it yet: ovn-controller does not answer in /run/ovn " +
		"(stage binding, of ovn-controller, has not come after 60.0 s)"
	attached := func(p *corev1.Pod) { p.Status.PodIPs = []corev1.PodIP{{IP: "10.244.0.3"}} }
	waiting := func(p *corev1.Pod) {
		attached(p)
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "web", State: corev1.ContainerState{
			Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff"}}}}
	}
	refused := func(p *corev1.Pod) {
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: networkv1alpha1.PodPortReady,
			Status:             corev1.ConditionFalse,
			Message:            "constraint violation: demo_web-0 exists",
			LastTransitionTime: metav1.NewTime(whyNow.Add(-time.Minute))})
	}
	for name, test := range map[string]struct {
		facts whyFacts
		says  []string
		waits bool
	}{
		"no node": {whyFacts{pod: whyPod(func(p *corev1.Pod) {
			p.Spec.NodeName = ""
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse,
				Message:            "0/3 nodes are available",
				LastTransitionTime: metav1.NewTime(whyNow.Add(-90 * time.Second))}}
		})}, []string{"demo/web-0 waits for the scheduler (stage scheduling, since 2030-01-01T11:58:30Z, 1m30s ago)",
			"0/3 nodes are available"}, true},
		"an IPPool that does not exist": {whyFacts{pod: whyPod(func(p *corev1.Pod) {
			p.Annotations = map[string]string{"network.weft.dev/ip-pol": "web"}
			p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: networkv1alpha1.PodRequestsGranted,
				Status: corev1.ConditionFalse, Message: "IPPool wbe: there is no IPPool of this name",
				LastTransitionTime: metav1.NewTime(whyNow.Add(-90 * time.Second))})
		})}, []string{"demo/web-0 waits for what the pod requests (stage address on node n1, since 2030-01-01T11:58:30Z, 1m30s ago)",
			"IPPool wbe: there is no IPPool of this name", "note: Weft has no annotation network.weft.dev/ip-pol, so that it has no effect; " +
				"did you mean network.weft.dev/ip-pool?"}, true},
		"held at Weft's gate": {whyFacts{pod: whyPod(func(p *corev1.Pod) {
			p.Spec.NodeName, p.Spec.SchedulingGates = "", []corev1.PodSchedulingGate{{Name: networkv1alpha1.FloatingGate}}
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse,
				Reason: corev1.PodReasonSchedulingGated, Message: "Scheduling is blocked due to non-empty scheduling gates"},
				{Type: networkv1alpha1.PodFloatingIP, Status: corev1.ConditionFalse, Message: "IPPool web has no free address",
					LastTransitionTime: metav1.NewTime(whyNow.Add(-90 * time.Second))}}
		})}, []string{"demo/web-0 waits for an address of an IPPool (stage address, since 2030-01-01T11:58:30Z, 1m30s ago)",
			"the scheduling gate network.weft.dev/floating-ip holds the pod: IPPool web has no free address", "-> free an address"}, true},
		"a pod of the host": {whyFacts{pod: whyPod(func(p *corev1.Pod) { p.Spec.HostNetwork = true })},
			[]string{"demo/web-0: the pod uses its node's network"}, false},
		"an ended pod": {whyFacts{pod: whyPod(func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded })},
			[]string{"the pod has ended (Succeeded)"}, false},
		"a refused port": {whyFacts{pod: whyPod(refused), network: whyNetwork()},
			[]string{"waits for the OVN northbound database (stage address on node n1, since 2030-01-01T11:59:00Z, 1m0s ago)",
				"demo_web-0 exists"}, true},
		"no NodeNetwork": {whyFacts{pod: whyPod(nil)},
			[]string{"waits for the operator (stage node on node n1", "has no NodeNetwork"}, true},
		"no address left": {whyFacts{pod: whyPod(nil), network: whyNetwork(),
			events: []corev1.Event{warning("FailedAddressAllocation", "no free address in 10.244.0.0/24", time.Minute)}},
			[]string{"waits for a free address (stage address on node n1", "-> free an address"}, true},
		"a stage of the agent": {whyFacts{pod: whyPod(nil), network: whyNetwork(),
			events: []corev1.Event{warning("FailedInterfaceCreation", binding, 30*time.Second)}},
			[]string{"waits for ovn-controller (stage binding on node n1, since 2030-01-01T11:59:30Z, 30s ago)",
				"ovn-controller does not answer in /run/ovn", "/var/log/ovn/ovn-controller.log"}, true},
		"the same in the runtime's words": {whyFacts{pod: whyPod(nil), network: whyNetwork(),
			events: []corev1.Event{warning("FailedCreatePodSandBox", "Failed to create pod sandbox: rpc error: "+binding, 30*time.Second)}},
			[]string{"waits for ovn-controller (stage binding on node n1", "port demo_web-0: ovn-controller has not claimed it yet"}, true},
		"an address of a foreign host": {whyFacts{pod: whyPod(nil), network: whyNetwork(),
			port: &trace.PortState{Northbound: true, Southbound: true},
			events: []corev1.Event{warning("FailedCreatePodSandBox", "Failed to create pod sandbox: rpc error: port segment_demo_web-0_net1: "+
				"address 10.77.0.50 is used already: 02:00:00:00:00:cc answers for it on the segment of link breth1, VLAN 100", 30*time.Second)}},
			[]string{"waits for an address that no host of the segment uses (stage link on node n1",
				"port segment_demo_web-0_net1: address 10.77.0.50", "02:00:00:00:00:cc", "-> find the host by its MAC"}, true},
		"no port in the northbound database": {whyFacts{pod: whyPod(nil),
			network: whyNetwork(), port: &trace.PortState{},
			leads: errors.New("no operator leads: the lease has no holder")},
			[]string{"waits for the operator (stage address on node n1, since 2030-01-01T11:58:00Z, 2m0s ago)", "note: no operator leads"}, true},
		"no port in the southbound database": {whyFacts{pod: whyPod(nil),
			network: whyNetwork(), port: &trace.PortState{Northbound: true}},
			[]string{"waits for ovn-northd (stage address"}, true},
		"no flows": {whyFacts{pod: whyPod(nil),
			network: whyNetwork(), port: &trace.PortState{Northbound: true, Southbound: true, Claimed: true}},
			[]string{"waits for ovn-controller (stage flows"}, true},
		"a pod that lost its port": {whyFacts{pod: whyPod(attached),
			network: whyNetwork(), port: &trace.PortState{Northbound: true, Southbound: true}},
			[]string{"waits for ovn-controller (stage binding on node n1)", "the pod ran"}, true},
		"an image": {whyFacts{pod: whyPod(waiting),
			network: whyNetwork(), port: &trace.PortState{Northbound: true, Southbound: true, Claimed: true, Up: true}},
			[]string{"demo/web-0: the pod has its network", "note: container web waits: ImagePullBackOff"}, false},
		"databases that were not asked": {whyFacts{pod: whyPod(nil),
			network: whyNetwork(), unread: "pods/exec is forbidden"},
			[]string{"waits for kubelet or the container runtime (stage sandbox",
				"the OVN databases could not be read: pods/exec is forbidden"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			a := test.facts.explain(whyNow)
			for _, text := range test.says {
				if !strings.Contains(a.text(), text) {
					t.Errorf("it does not say %q:\n%s", text, a.text())
				}
			}
			if a.Waits != test.waits {
				t.Errorf("waits is %v: %s", a.Waits, a.text())
			}
		})
	}
}

// An event of an earlier pod of the name says nothing about this pod.
func TestWarningsAreThisPods(t *testing.T) {
	other := warning("FailedAddressAllocation", "of another", time.Second)
	other.InvolvedObject.UID = "other"
	normal := warning("Scheduled", "normal", time.Second)
	normal.Type = corev1.EventTypeNormal
	got := warningsOf(whyPod(nil), []corev1.Event{warning("FailedPortCreation", "new", time.Second), other, normal,
		warning("FailedAddressAllocation", "old", time.Minute)})
	if len(got) != 2 || got[0].Message != "old" || got[1].Message != "new" {
		t.Errorf("warnings are %+v", got)
	}
}
