package policy

import (
	"errors"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/controllers/kind"
	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/ovndb"
	"github.com/weft-network/weft/pkg/topology"
	"github.com/weft-network/weft/test/kindtest"
)

var qosKey = topology.EgressQoSKey("demo")

func mark(dscp int32, app string) networkv1alpha1.EgressQoSRule {
	return networkv1alpha1.EgressQoSRule{DSCP: &dscp, PodSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}}
}

func aQoS(rules ...networkv1alpha1.EgressQoSRule) *networkv1alpha1.EgressQoS {
	qos := &networkv1alpha1.EgressQoS{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: networkv1alpha1.EgressQoSName}}
	qos.Spec.Egress = rules
	return qos
}

func aNodeNetwork(name string, mode networkv1alpha1.GatewayMode) *networkv1alpha1.NodeNetwork {
	nn := &networkv1alpha1.NodeNetwork{ObjectMeta: metav1.ObjectMeta{Name: name}}
	nn.Status.Gateway = &networkv1alpha1.NodeGatewayStatus{Mode: mode}
	return nn
}

// readyOf returns the condition Ready of demo's EgressQoS.
func readyOf(b *kindtest.Bed) metav1.Condition {
	qos := kindtest.Get(b, aQoS())
	if len(qos.Status.Conditions) != 1 {
		return metav1.Condition{}
	}
	c := qos.Status.Conditions[0]
	c.LastTransitionTime = metav1.Time{}
	return c
}

func TestReconcileQoS(t *testing.T) {
	near := mark(1, "web")
	near.PodSelector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "app", Operator: "Near"}}
	rejected := &ovndb.RejectedError{Unit: qosKey, Err: errors.New("constraint violation")}
	for name, c := range map[string]struct {
		rules, former []networkv1alpha1.EgressQoSRule

		fails error
		nodes []client.Object
		rows  int // rows and elements of the unit
		want  metav1.Condition
		none  string // ends the message
	}{
		"a rule": {rules: []networkv1alpha1.EgressQoSRule{mark(46, "web")}, rows: 2,
			want: metav1.Condition{Status: metav1.ConditionTrue, Reason: networkv1alpha1.ReasonAsExpected, Message: "rules in force: 1"}},
		"also at the switch of a node in Local mode": {rules: []networkv1alpha1.EgressQoSRule{mark(46, "web"), mark(10, "db")}, rows: 8,
			none:  "; spec.egress[1].podSelector selects no pod",
			nodes: []client.Object{aNodeNetwork("n1", networkv1alpha1.GatewayShared), aNodeNetwork("n2", networkv1alpha1.GatewayLocal)},
			want:  metav1.Condition{Status: metav1.ConditionTrue, Reason: networkv1alpha1.ReasonAsExpected, Message: "rules in force: 2"}},
		"an unreadable rule keeps the former rules": {former: []networkv1alpha1.EgressQoSRule{mark(46, "web")}, rows: 2,
			rules: []networkv1alpha1.EgressQoSRule{mark(10, "db"), near},
			want: metav1.Condition{Status: metav1.ConditionFalse, Reason: networkv1alpha1.ReasonInvalidSpec,
				Message: `the former rules stay in force: 1: spec.egress[1].podSelector: "Near" is not a valid label selector operator`}},
		"an unreadable rule without former rules": {rules: []networkv1alpha1.EgressQoSRule{mark(46, "web"), near},
			want: metav1.Condition{Status: metav1.ConditionFalse, Reason: networkv1alpha1.ReasonInvalidSpec,
				Message: `no rule is in force: spec.egress[1].podSelector: "Near" is not a valid label selector operator`}},
		"the database refuses it": {rules: []networkv1alpha1.EgressQoSRule{mark(46, "web")}, fails: rejected, rows: 2,
			want: metav1.Condition{Status: metav1.ConditionFalse, Reason: networkv1alpha1.ReasonDatabaseRefused, Message: "constraint violation"}},
	} {
		t.Run(name, func(t *testing.T) {
			qos := aQoS(c.rules...)
			qos.Status.Egress = c.former
			b := newBed(t, topology.KindEgressQoS, append(c.nodes, aPod(), qos)...)
			if c.fails != nil {
				b.Database.Refusals[qosKey] = c.fails
			}
			first := b.Reconcile("demo", networkv1alpha1.EgressQoSName)
			if rows := first.Units[qosKey]; len(rows) != c.rows {
				t.Errorf("unit %q, want %d lines", rows, c.rows)
			}
			c.want.Type, c.want.Message = networkv1alpha1.ConditionReady, c.want.Message+c.none
			if got := readyOf(b); got != c.want {
				t.Errorf("condition %+v\nwant %+v", got, c.want)
			}
			if warned := len(first.Events) > 0; warned != (c.want.Status == metav1.ConditionFalse) {
				t.Errorf("events %q", first.Events)
			}
			again := b.Reconcile("demo", networkv1alpha1.EgressQoSName)
			if len(again.Events) > 0 || readyOf(b) != c.want {
				t.Errorf("the second time: %+v", again)
			}
		})
	}
}

// A rule whose podSelector selects no pod is named, also after the labels of a pod have changed. That is no event, and another namespace's
// pods enqueue nothing.
func TestAQoSOfNoPod(t *testing.T) {
	pod := aPod()
	b := newBed(t, topology.KindEgressQoS, pod, aQoS(mark(46, "web"), mark(10, "db")))
	says := func(want string) {
		t.Helper()
		have := b.Reconcile("demo", networkv1alpha1.EgressQoSName)
		if message := readyOf(b).Message; message != want || len(have.Events) > 0 {
			t.Errorf("message %q, want %q; events %q", message, want, have.Events)
		}
		b.ExpectSettled("demo", networkv1alpha1.EgressQoSName)
	}
	says("rules in force: 2; spec.egress[1].podSelector selects no pod")
	r := (&QoS{Reconciler: &Reconciler{Client: b.Env.Client}})
	none := func(o client.Object) (none []bool) {
		for _, s := range r.selectors(t.Context(), o) {
			none = append(none, s.None)
		}
		return none
	}
	if have := none(pod); !slices.Equal(have, []bool{false, true}) {
		t.Errorf("the status says of the rules %v", have)
	}
	if have := none(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "other", Name: "db"}}); len(have) > 0 {
		t.Errorf("a pod of another namespace concerns %v", have)
	}
	pod = kindtest.Get(b, pod)
	pod.Labels = map[string]string{"app": "db"}
	b.Update(pod)
	says("rules in force: 2; spec.egress[0].podSelector selects no pod")
}

// An EgressQoS goes with its object, and its sets with it.
func TestEndOfAQoS(t *testing.T) {
	qos := aQoS(mark(46, "web"))
	b := newBed(t, topology.KindEgressQoS, aPod(), qos)
	b.Reconcile("demo", networkv1alpha1.EgressQoSName)
	b.Delete(qos)
	have := b.Reconcile("demo", networkv1alpha1.EgressQoSName)
	if len(have.Units[qosKey]) > 0 || len(b.Database.Unit(qosKey).Rows) > 0 || have.Err != "" {
		t.Errorf("%+v", have)
	}
	read, err := facts.ParseEgressQoS(qos, nil)
	if err != nil {
		t.Fatal(err)
	}
	for set := range topology.EgressQoSSelectors(read) {
		if !b.Database.Unit(set).Empty() {
			t.Errorf("set %s stays", set)
		}
	}
}

// An EgressQoS waits for a pod that is being reconciled: its port would otherwise be created outside the set.
func TestAQoSWaitsForPods(t *testing.T) {
	b := newBed(t, topology.KindEgressQoS, aPod())
	b.Create(aQoS(mark(46, "web")))
	b.Env.Selectors.Started(topology.PodKey("demo", "web"))
	if have := b.Reconcile("demo", networkv1alpha1.EgressQoSName); len(have.Units) > 0 || readyOf(b) != (metav1.Condition{}) {
		t.Errorf("%+v before the pod", have)
	}
	b.Env.Selectors.Reconciled(topology.PodKey("demo", "web"))
	b.Env.Selectors.Started(topology.PodKey("demo", "web"))
	b.Env.Selectors.Reconciled(topology.PodKey("demo", "web"))
	makeSets(b)
	if have := b.Reconcile("demo", networkv1alpha1.EgressQoSName); len(have.Units[qosKey]) != 2 {
		t.Errorf("%+v after the pod", have)
	}
}

// Only nodes in Local mode concern EgressQoSes.
func TestWhatConcernsAQoS(t *testing.T) {
	b := newBed(t, topology.KindEgressQoS, aQoS(mark(46, "web")))
	at := slices.IndexFunc(b.Kinds, func(k *kind.Kind) bool { return k.Name == topology.KindEgressQoS })
	nodes := b.Kinds[at].Watches[1].Predicates[0]
	local, shared := aNodeNetwork("n1", networkv1alpha1.GatewayLocal), aNodeNetwork("n1", networkv1alpha1.GatewayShared)
	for name, c := range map[string]struct{ have, want bool }{
		"a new node in Local mode":    {nodes.Create(event.CreateEvent{Object: local}), true},
		"a new node in Shared mode":   {nodes.Create(event.CreateEvent{Object: shared}), false},
		"a node goes to Local mode":   {nodes.Update(event.UpdateEvent{ObjectOld: shared, ObjectNew: local}), true},
		"a node stays in Local mode":  {nodes.Update(event.UpdateEvent{ObjectOld: local, ObjectNew: local}), false},
		"a node leaves Local mode":    {nodes.Update(event.UpdateEvent{ObjectOld: local, ObjectNew: shared}), true},
		"a node in Local mode ends":   {nodes.Delete(event.DeleteEvent{Object: local}), true},
		"a node in Shared mode ends":  {nodes.Delete(event.DeleteEvent{Object: shared}), false},
		"another object than a node":  {nodes.Create(event.CreateEvent{Object: &corev1.Pod{}}), false},
		"a change of the rules":       {qosChanged(aQoS(), withGeneration(2)), true},
		"a change of its annotations": {qosChanged(aQoS(), aQoS()), false},
	} {
		if c.have != c.want {
			t.Errorf("%s reconciles: %t, want %t", name, c.have, c.want)
		}
	}
}

func withGeneration(n int64) *networkv1alpha1.EgressQoS {
	qos := aQoS()
	qos.Generation = n
	return qos
}
