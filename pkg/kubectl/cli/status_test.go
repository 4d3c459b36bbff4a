package cli

import (
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/health"
)

func condition(kind string, on bool, message string) metav1.Condition {
	status := map[bool]metav1.ConditionStatus{true: metav1.ConditionTrue, false: metav1.ConditionFalse}[on]
	return metav1.Condition{Type: kind, Status: status, Reason: networkv1alpha1.ReasonAsExpected, Message: message}
}

func healthyNetwork() (*networkv1alpha1.ClusterNetwork, []networkv1alpha1.NodeNetwork) {
	cn := &networkv1alpha1.ClusterNetwork{ObjectMeta: metav1.ObjectMeta{Name: "default", Generation: 2}}
	cn.Status.ObservedGeneration = 2
	cn.Status.Conditions = []metav1.Condition{
		condition(networkv1alpha1.ConditionReady, true, ""), condition(networkv1alpha1.ConditionAvailable, true, ""),
	}
	cn.Status.Areas = health.Areas(nil, map[networkv1alpha1.AreaName]string{networkv1alpha1.AreaNodes: "2/2 nodes are ready"})
	cn.Status.Versions = []networkv1alpha1.ComponentVersion{{Name: "operator", Version: "v1"}, {Name: "agent", Version: "v1"}}
	var networks []networkv1alpha1.NodeNetwork
	for _, name := range []string{"n1", "n2"} {
		nn := networkv1alpha1.NodeNetwork{ObjectMeta: metav1.ObjectMeta{Name: name}}
		nn.Status.Conditions = []metav1.Condition{condition(networkv1alpha1.ConditionReady, true, "pods can be attached")}
		nn.Status.Addresses = &networkv1alpha1.AddressCounts{Total: 252, Used: 2, Free: 250}
		networks = append(networks, nn)
	}
	return cn, networks
}

func TestHealthyNetworkIsDrawn(t *testing.T) {
	cn, networks := healthyNetwork()
	r := statusOf(cn, networks, "")
	text := statusText(r)
	if !r.Healthy || !strings.HasPrefix(text, "The network is healthy\n") || strings.Contains(text, "Problems") ||
		!strings.Contains(text, "Versions: operator v1, agent v1") {
		t.Errorf("healthy %v:\n%s", r.Healthy, text)
	}
}

// Without a leader the ClusterNetwork's status is out of date. The worst node is drawn first.
func TestProblemsAreDrawnWorstFirst(t *testing.T) {
	cn, networks := healthyNetwork()
	problem := health.New(networkv1alpha1.AreaNodes, networkv1alpha1.StateDegraded, networkv1alpha1.ReasonSwitchUnavailable,
		"NodeNetwork/n2", "OVSReady: no answer")
	problems := []networkv1alpha1.Problem{problem}
	cn.Status.Problems, networks[1].Status.Problems = problems, problems
	networks[1].Status.Conditions = []metav1.Condition{condition(networkv1alpha1.ConditionReady, false, "OVSReady: no answer")}
	r := statusOf(cn, networks, "no operator leads")
	text := statusText(r)
	if r.Healthy || r.Problems[0].Reason != health.ReasonNoLeader || r.Areas[1].State != networkv1alpha1.StateUnavailable ||
		r.Nodes[0].Name != "n2" {
		t.Errorf("report: %+v", r)
	}
	for _, want := range []string{
		"The network is not available", " 1. Unavailable, NoLeader: Deployment/weft-operator",
		" 2. Degraded, SwitchUnavailable: NodeNetwork/n2", "    -> start ovs-vswitchd on n2 again",
		"n2    no     0     250   OVSReady: no answer",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in:\n%s", want, text)
		}
	}
}

// A node that Kubernetes has lost is not shown as ready, although its agent's last report says so and no operator has noticed yet.
func TestALostNodeIsNotReady(t *testing.T) {
	for _, test := range []struct {
		status             corev1.ConditionStatus
		reported           bool
		ready              bool
		problems, fromThis int
	}{
		{status: corev1.ConditionTrue, ready: true},
		{status: corev1.ConditionUnknown, problems: 1, fromThis: 1},
		{status: corev1.ConditionUnknown, reported: true, problems: 1},
		{status: corev1.ConditionFalse},
	} {
		cn, networks := healthyNetwork()
		if test.reported {
			cn.Status.Problems = []networkv1alpha1.Problem{health.New(networkv1alpha1.AreaNodes, networkv1alpha1.StateDegraded,
				networkv1alpha1.ReasonNodeLost, "Node/n2", "no heartbeats")}
		}
		node := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n2"}}
		node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: test.status, Message: "why"}}
		r := statusOf(cn, networks, "")
		before := len(r.Problems)
		r.addNodes([]corev1.Node{node})
		text := statusText(r)
		if len(r.Problems) != test.problems || len(r.Problems)-before != test.fromThis || r.Healthy != (test.problems == 0) ||
			strings.Contains(text, "n2    no     0     250   Kubernetes: the node is not ready: why") == test.ready {
			t.Errorf("%s: problems %+v, healthy %t\n%s", test.status, r.Problems, r.Healthy, text)
		}
	}
}

// A network whose operator has not observed the latest spec is not healthy, because its status is about the previous
// spec.
func TestNewSpecIsNotHealthyYet(t *testing.T) {
	cn, networks := healthyNetwork()
	cn.Generation++
	if r := statusOf(cn, networks, ""); r.Healthy || len(r.Problems) != 1 || r.Problems[0].Reason != health.ReasonNotObserved {
		t.Errorf("report: %+v", r)
	}
}

func TestLeaderless(t *testing.T) {
	now := time.Now()
	renewed := func(ago time.Duration) *coordinationv1.Lease {
		at := metav1.NewMicroTime(now.Add(-ago))
		return &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{HolderIdentity: new("uid"), RenewTime: &at}}
	}
	holder := []corev1.Pod{{ObjectMeta: metav1.ObjectMeta{UID: "uid"}}}
	other := []corev1.Pod{{ObjectMeta: metav1.ObjectMeta{UID: "x"}}}
	for _, test := range []struct {
		name   string
		held   bool
		ago    time.Duration
		pods   []corev1.Pod
		reason bool
	}{
		{"an operator leads", true, time.Second, holder, false},
		{"pods that the user may not list", true, time.Second, nil, false},
		{"no lease", false, 0, holder, true},
		{"its pod is gone", true, time.Second, other, true},
		{"silent", true, time.Hour, holder, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			if why := leaderless(test.held, renewed(test.ago), test.pods, "weft-system", now); (why != "") != test.reason {
				t.Errorf("leaderless: %q", why)
			}
		})
	}
}

// The progress of a rollout is drawn even without a leading operator. A network is not healthy before the end of its
// rollout.
func TestRolloutIsDrawn(t *testing.T) {
	cn, networks := healthyNetwork()
	cn.Status.Rollout = &networkv1alpha1.RolloutStatus{
		State: networkv1alpha1.RolloutProgressing, Version: "v2", Stage: networkv1alpha1.StageNodes, Object: "Node/n3",
		Difference: "3 ACL changed, of 912 rows", Message: "pod weft-agent-x is being replaced", Nodes: 8, NodesDone: 2,
	}
	r := statusOf(cn, networks, "no operator leads")
	text := statusText(r)
	for _, want := range []string{
		"Rollout of v2: progressing\n", "  preflight > canary > [nodes] > databases > operator\n",
		"  #####............... 2 of 8 nodes\n", "  Node/n3: pod weft-agent-x is being replaced\n",
		"  changes in the northbound database: 3 ACL changed, of 912 rows\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in:\n%s", want, text)
		}
	}
	if statusOf(cn, networks, "").Healthy {
		t.Error("a network is healthy during its rollout")
	}
	cn.Status.Rollout.State = networkv1alpha1.RolloutComplete
	if r := statusOf(cn, networks, ""); !r.Healthy || strings.Contains(statusText(r), "Rollout") {
		t.Errorf("after the rollout: healthy %t:\n%s", r.Healthy, statusText(r))
	}
}
