package clusternetwork

import (
	"net/netip"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"k8s.io/client-go/tools/events"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/controllers/kind"
	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/health"
	"github.com/weft-network/weft/pkg/invariant"
	"github.com/weft-network/weft/pkg/ipam"
)

func cluster(cidr string, hostPrefix int) ipam.Network {
	return ipam.Network{CIDR: netip.MustParsePrefix(cidr), HostPrefix: hostPrefix}
}

// A network is not exhausted because a node has no subnet yet, as long as another network of the family has room.
func TestExhaustedIsAFamily(t *testing.T) {
	full, room := cluster("10.0.0.0/24", 25), cluster("10.1.0.0/24", 25)
	full6, room6 := cluster("fd00::/63", 64), cluster("fd01::/48", 64)
	var networks []networkv1alpha1.NodeNetwork
	for name, subnets := range map[string][]networkv1alpha1.CIDR{"a": {"10.0.0.0/25", "fd00::/64"},
		"b": {"10.0.0.128/25", "fd00:0:0:1::/64"}} {
		nn := networkv1alpha1.NodeNetwork{ObjectMeta: metav1.ObjectMeta{Name: name}}
		nn.Spec.PodSubnets = subnets
		networks = append(networks, nn)
	}
	node := func(name string) corev1.Node { return corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}} }
	for _, test := range []struct {
		name  string
		plan  []ipam.Network
		nodes []corev1.Node
		want  string
	}{
		{"no node waits", []ipam.Network{full}, []corev1.Node{node("a"), node("b")}, networkv1alpha1.ReasonAsExpected},
		{"full", []ipam.Network{full}, []corev1.Node{node("a"), node("c")}, networkv1alpha1.ReasonSubnetsExhausted},
		{"room behind a full one", []ipam.Network{full, room}, []corev1.Node{node("c")}, networkv1alpha1.ReasonAsExpected},
		{"one family full", []ipam.Network{room, full6}, []corev1.Node{node("c")}, networkv1alpha1.ReasonSubnetsExhausted},
		{"room in both", []ipam.Network{full, full6, room, room6}, []corev1.Node{node("c")}, networkv1alpha1.ReasonAsExpected},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := health.Degraded(problemsOf("default",
				statusInput{connected: true, plan: facts.Plan{Clusters: test.plan}, nodes: test.nodes, networks: networks}))
			if got.Reason != test.want {
				t.Errorf("Degraded is %s with reason %s: %s; want reason %s", got.Status, got.Reason, got.Message, test.want)
			}
		})
	}
}

// After a start the addresses in use are unknown at first. The status keeps its previous counts until then.
func TestCountsStayUntilAddressesAreRestored(t *testing.T) {
	f := statusInput{plan: facts.Plan{Clusters: []ipam.Network{cluster("10.0.0.0/24", 25)}}, connected: true}
	f.used = func(netip.Prefix) (int64, bool) { return 5, true }
	cn := &networkv1alpha1.ClusterNetwork{}
	cn.Status = status(cn, f)
	if got := cn.Status.Addresses[0]; got.Used != 5 || got.Free != got.Total-5 || got.Total != 2*124 {
		t.Errorf("addresses are %+v", got)
	}
	before := *cn.Status.DeepCopy()
	f.used = func(netip.Prefix) (int64, bool) { return 0, false }
	if got := status(cn, f); !equality.Semantic.DeepEqual(got, before) {
		t.Errorf("status is %+v, was %+v", got, before)
	}
}

// A violation makes the network degraded, but ranks behind every problem that may be its cause.
func TestViolationDegrades(t *testing.T) {
	f := statusInput{connected: true, violations: []invariant.Violation{{Invariant: "UniqueMAC", Message: "MAC belongs to 2 ports"},
		{Invariant: "PodHasPort", Message: "pod has no port"}}}
	got := health.Degraded(problemsOf("default", f))
	want := "UniqueMAC: MAC belongs to 2 ports; and 1 more, see kubectl weft check"
	if got.Reason != networkv1alpha1.ReasonInvariantViolated || got.Message != want {
		t.Errorf("Degraded has reason %s: %s; want %s", got.Reason, got.Message, want)
	}
	f.drift = &networkv1alpha1.DriftStatus{Standing: 1}
	if got := health.Degraded(problemsOf("default", f)); got.Reason != networkv1alpha1.ReasonDrift {
		t.Errorf("Degraded has reason %s: %s; want the drift's", got.Reason, got.Message)
	}
	f.violations, f.drift = f.violations[:1], nil
	if got := health.Degraded(problemsOf("default", f)); got.Message != "UniqueMAC: MAC belongs to 2 ports" {
		t.Errorf("Degraded says %q", got.Message)
	}
}

// A new violation causes one event.
func TestViolationIsReportedOnce(t *testing.T) {
	var now []invariant.Violation
	recorder := events.NewFakeRecorder(10)
	r := &Reconciler{Events: recorder, Observed: kind.Observed{Violations: func() []invariant.Violation { return now }}}
	cn := &networkv1alpha1.ClusterNetwork{}
	mac, port := invariant.Violation{Invariant: "UniqueMAC", Message: "twice"},
		invariant.Violation{Invariant: "PodHasPort", Message: "none"}
	for _, step := range []struct {
		now  []invariant.Violation
		want string
	}{{nil, ""}, {[]invariant.Violation{mac}, "UniqueMAC: twice"}, {[]invariant.Violation{mac}, ""},
		{[]invariant.Violation{mac, port}, "PodHasPort: none"}, {nil, ""}, {[]invariant.Violation{mac}, "UniqueMAC: twice"}} {
		now = step.now
		r.recordViolations(cn)
		text := ""
		select {
		case text = <-recorder.Events:
		default:
		}
		if (text == "") != (step.want == "") || !strings.HasSuffix(text, step.want) {
			t.Errorf("with %v the event is %q, want %q", now, text, step.want)
		}
	}
}

// A node without heartbeats is not ready, whatever its agent reported last.
func TestLostNodeIsNotReady(t *testing.T) {
	nn := networkv1alpha1.NodeNetwork{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
	nn.Status.Conditions = []metav1.Condition{{Type: networkv1alpha1.ConditionReady, Status: metav1.ConditionTrue}}
	for status, want := range map[corev1.ConditionStatus]int{corev1.ConditionTrue: 1, corev1.ConditionFalse: 1,
		corev1.ConditionUnknown: 0} {
		node := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
		node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status}}
		ready, waiting := countReady([]corev1.Node{node}, []networkv1alpha1.NodeNetwork{nn})
		if ready != want || len(waiting) != 1-want {
			t.Errorf("kubelet's Ready is %s: %d ready, waiting %v", status, ready, waiting)
		}
	}
}

// A ClusterNetwork that is being deleted never appears healthy, whichever component reports the reason. A recreated
// ClusterNetwork has no trace of it.
func TestARemovalIsInTheStatus(t *testing.T) {
	f := statusInput{plan: facts.Plan{Clusters: []ipam.Network{cluster("10.0.0.0/24", 25)}}, connected: true,
		used: func(netip.Prefix) (int64, bool) { return 5, true }}
	deleted := metav1.Now()
	held := health.Removing(networkv1alpha1.ReasonPodsRemain, "nothing is removed while 1 pod uses the network: a/b")
	for _, test := range []struct {
		name       string
		deleted    *metav1.Time
		finalizer  string
		conditions []metav1.Condition
		ready      metav1.ConditionStatus
		reason     string // of Removing; empty if it is absent
	}{
		{"not deleted", nil, networkv1alpha1.OperandsFinalizer, nil, metav1.ConditionTrue, ""},
		{"not deleted, with a former condition", nil, networkv1alpha1.OperandsFinalizer, []metav1.Condition{held},
			metav1.ConditionTrue, ""},
		{"held by pods", &deleted, networkv1alpha1.OperandsFinalizer, []metav1.Condition{held}, metav1.ConditionTrue,
			networkv1alpha1.ReasonPodsRemain},
		{"weft-operands is away", &deleted, networkv1alpha1.OperandsFinalizer, nil, metav1.ConditionTrue, networkv1alpha1.ReasonRemoving},
		{"databases outside Weft", &deleted, "example.org/x", nil, metav1.ConditionTrue, networkv1alpha1.ReasonFinalizersRemain},
		{"begun", &deleted, networkv1alpha1.OperandsFinalizer,
			[]metav1.Condition{health.Removing(networkv1alpha1.ReasonRemovingOperands, "m")}, metav1.ConditionFalse,
			networkv1alpha1.ReasonRemovingOperands},
	} {
		t.Run(test.name, func(t *testing.T) {
			cn := &networkv1alpha1.ClusterNetwork{ObjectMeta: metav1.ObjectMeta{Name: "default",
				DeletionTimestamp: test.deleted, Finalizers: []string{test.finalizer}}}
			cn.Status.Conditions = test.conditions
			cn.Status = status(cn, f)
			removing := meta.FindStatusCondition(cn.Status.Conditions, networkv1alpha1.ConditionRemoving)
			if (removing == nil) != (test.reason == "") || removing != nil && removing.Reason != test.reason {
				t.Errorf("Removing is %+v, want %s", removing, test.reason)
			}
			if got := meta.FindStatusCondition(cn.Status.Conditions,
				networkv1alpha1.ConditionReady); got.Status != test.ready ||
				strings.Contains(got.Message, "being removed") != (test.reason != "") {
				t.Errorf("Ready is %+v, want %s", got, test.ready)
			}
			upgradeable := meta.FindStatusCondition(cn.Status.Conditions, networkv1alpha1.ConditionUpgradeable)
			if removing != nil && (upgradeable.Status != metav1.ConditionFalse ||
				upgradeable.Reason != networkv1alpha1.ReasonRemoving || len(cn.Status.Problems) == 0 ||
				cn.Status.Areas[1].State == networkv1alpha1.StateOK) {
				t.Errorf("Upgradeable is %+v, problems %+v, areas %+v", upgradeable, cn.Status.Problems, cn.Status.Areas)
			}
			if again := status(cn, f); !equality.Semantic.DeepEqual(again, cn.Status) {
				t.Errorf("a second computation gives %+v, after %+v", again, cn.Status)
			}
		})
	}
}

// A changed gateway that does not work on a node is a problem of the cluster while other nodes keep their former one.
func TestAStoppedGatewayIsNamed(t *testing.T) {
	node := func(name string, snat networkv1alpha1.SNATPolicy, reason string) networkv1alpha1.NodeNetwork {
		nn := networkv1alpha1.NodeNetwork{ObjectMeta: metav1.ObjectMeta{Name: name}}
		nn.Spec.Gateway = networkv1alpha1.NodeGateway{Mode: networkv1alpha1.GatewayShared, Uplink: networkv1alpha1.UplinkBridge, SNAT: snat,
			Unconfirmed: snat == networkv1alpha1.SNATNone}
		nn.Status.Conditions = []metav1.Condition{{Type: networkv1alpha1.ConditionGatewayReady, Status: metav1.ConditionFalse,
			Reason: reason, Message: "silent"}}
		return nn
	}
	const silent, waits = networkv1alpha1.ReasonNextHopsUnusable, networkv1alpha1.ReasonWaitingForTopology
	failed, changing := node("a", networkv1alpha1.SNATNone, silent), node("a", networkv1alpha1.SNATNone, waits)
	waiting := []networkv1alpha1.NodeNetwork{node("b", networkv1alpha1.SNATNode, waits), node("c", networkv1alpha1.SNATNode, silent)}
	for name, test := range map[string]struct {
		networks []networkv1alpha1.NodeNetwork
		want     string
	}{
		"stopped": {append(waiting, failed), "the changed snat of spec.gateway: node a: silent; until that is settled these nodes keep their " +
			"former gateway: b, c"},
		"under way":  {append(waiting, changing), ""},
		"everywhere": {[]networkv1alpha1.NodeNetwork{failed}, ""},
		"no change":  {waiting[:1], ""},
	} {
		if got := stoppedGateway(networkv1alpha1.Gateway{SNAT: networkv1alpha1.SNATNone}, nil, test.networks); got != test.want {
			t.Errorf("%s: %q", name, got)
		}
	}
}
