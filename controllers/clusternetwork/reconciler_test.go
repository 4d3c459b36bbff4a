package clusternetwork

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/controllers/kind"
	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/ovndb"
	"github.com/weft-network/weft/pkg/process/trigger"
	"github.com/weft-network/weft/pkg/topology"
	"github.com/weft-network/weft/pkg/unit"
	"github.com/weft-network/weft/test/kindtest"
)

// aNetwork is the ClusterNetwork as a user creates it.
func aNetwork(families string, change ...func(*networkv1alpha1.ClusterNetwork)) *networkv1alpha1.ClusterNetwork {
	cn := kindtest.ClusterNetwork(families)
	cn.Generation, cn.Status = 3, networkv1alpha1.ClusterNetworkStatus{}
	for _, c := range change {
		c(cn)
	}
	return cn
}

// aReadyNode is a node whose network is ready.
func aReadyNode(t *testing.T, id int, families string) []client.Object {
	t.Helper()
	node, nn := kindtest.Node(t, id, families)
	nn.Status.Conditions = []metav1.Condition{{Type: networkv1alpha1.ConditionReady, Status: metav1.ConditionTrue}}
	nn.Status.LinkMTU = 1500
	return []client.Object{node, nn}
}

func newBed(t *testing.T, change func(*kind.Env), objects ...client.Object) *kindtest.Bed {
	t.Helper()
	system := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kube-system", UID: "the-cluster"}}
	return kindtest.New(t, Kinds, topology.KindNetwork, func(env *kind.Env) {
		env.Settings.Announce = true
		if change != nil {
			change(env)
		}
	}, append(objects, system)...)
}

// condition is a condition of the ClusterNetwork as text.
func condition(b *kindtest.Bed, kind string) string {
	c := meta.FindStatusCondition(kindtest.Get(b, aNetwork("4")).Status.Conditions, kind)
	if c == nil {
		return ""
	}
	return fmt.Sprintf("%s of generation %d %s: %s", c.Status, c.ObservedGeneration, c.Reason, c.Message)
}

func TestReconcile(t *testing.T) {
	const (
		unreadable = `spec.clusterNetwork[0].cidr: CIDR "bad": netip.ParsePrefix("bad"): no '/'`
		selector   = `spec.gateway.overrides[0].nodeSelector: "bad" is not a valid label selector operator`
	)
	rejected := &ovndb.RejectedError{Unit: topology.NetworkKey(), Err: errors.New("constraint violation")}
	foreign := errors.New("the database belongs to another cluster")
	const status = "patch status ClusterNetwork default"
	written := []string{status, status} // the networks in force, then the rest
	for name, c := range map[string]struct {
		families string // empty: IPv4
		change   func(*networkv1alpha1.ClusterNetwork)
		prepare  func(*kindtest.Bed)
		// applied: the cluster-wide unit was.
		applied bool
		// reason and message belong to Ready, which is False; empty: the network is ready. events are the conditions
		// that an event reports.
		reason, message string
		events          []string
		want            kindtest.Outcome // without Units and Events
	}{
		"IPv4":       {families: "4", applied: true, want: kindtest.Outcome{Writes: written}},
		"IPv6":       {families: "6", applied: true, want: kindtest.Outcome{Writes: written}},
		"dual stack": {families: "46", applied: true, want: kindtest.Outcome{Writes: written}},
		"a network that cannot be read": {
			change: func(cn *networkv1alpha1.ClusterNetwork) { cn.Spec.ClusterNetwork[0].CIDR = "bad" },
			reason: networkv1alpha1.ReasonInvalidSpec, message: unreadable,
			events: []string{"Ready is False", "Degraded is True"}, want: kindtest.Outcome{Writes: written[:1]},
		},
		"a gateway that cannot be read": {
			change: func(cn *networkv1alpha1.ClusterNetwork) {
				bad := []metav1.LabelSelectorRequirement{{Key: "a", Operator: "bad"}}
				cn.Spec.Gateway.Overrides = []networkv1alpha1.GatewayOverride{
					{NodeSelector: metav1.LabelSelector{MatchExpressions: bad}}}
			},
			applied: true, reason: networkv1alpha1.ReasonInvalidSpec, message: selector,
			events: []string{"Ready is False", "Degraded is True"}, want: kindtest.Outcome{Writes: written},
		},
		"the database refuses it": {
			prepare: func(b *kindtest.Bed) { b.Database.Refusals[topology.NetworkKey()] = rejected },
			applied: true, reason: networkv1alpha1.ReasonDatabaseError, message: rejected.Error(),
			events: []string{"Ready is False", "Degraded is True"},
			want:   kindtest.Outcome{Writes: written, Err: rejected.Error()},
		},
		"the database is away": { // the engine applies the unit later
			prepare: func(b *kindtest.Bed) { b.Database.Away = true },
			applied: true, reason: networkv1alpha1.ReasonDatabaseUnavailable,
			message: "the OVN northbound database is not connected; existing pods keep their network",
			events:  []string{"Ready is False", "Available is False", "Degraded is True"},
			want:    kindtest.Outcome{Writes: written},
		},
		"another cluster's database": { // the next connection enqueues the ClusterNetwork
			prepare: func(b *kindtest.Bed) { b.Database.Refuse = foreign },
			reason:  networkv1alpha1.ReasonDatabaseError, message: foreign.Error(),
			events: []string{"Ready is False", "Available is False", "Degraded is True"},
			want:   kindtest.Outcome{Writes: written},
		},
	} {
		t.Run(name, func(t *testing.T) {
			families := cmp.Or(c.families, "4")
			cn := aNetwork(families)
			if c.change != nil {
				c.change(cn)
			}
			b := newBed(t, nil, append(aReadyNode(t, 1, families), cn)...)
			if c.prepare != nil {
				c.prepare(b)
			}
			if c.applied {
				c.want.Units = map[unit.Key][]string{topology.NetworkKey(): b.Text(topology.NetworkUnit(rows[families]))}
			}
			for _, text := range c.events {
				c.want.Events = append(c.want.Events, "Warning "+c.reason+" ClusterNetwork default: "+text+": "+c.message)
			}
			kindtest.Expect(t, c.want, b.Reconcile("", "default"))
			ready := "True of generation 3 AsExpected: the network of every node is ready"
			if c.reason != "" {
				ready = "False of generation 3 " + c.reason + ": " + c.message
			}
			if have := condition(b, networkv1alpha1.ConditionReady); have != ready {
				t.Errorf("condition Ready %q, want %q", have, ready)
			}
			// A second reconciliation writes nothing, and reports nothing again.
			again := kindtest.Outcome{Units: c.want.Units, Err: c.want.Err}
			kindtest.Expect(t, again, b.Reconcile("", "default"))
		})
	}
}

// rows are the facts of the cluster-wide unit, by families.
var rows = map[string]facts.Network{
	"4": {Cluster: "the-cluster", Join: prefixes("100.64.0.0/16"), Clusters: prefixes("10.244.0.0/16")},
	"6": {Cluster: "the-cluster", Join: prefixes("fd98::/64"), Clusters: prefixes("fd01::/48")},
	"46": {Cluster: "the-cluster", Join: prefixes("100.64.0.0/16", "fd98::/64"),
		Clusters: prefixes("10.244.0.0/16", "fd01::/48")},
}

func prefixes(texts ...string) (parsed []netip.Prefix) {
	for _, text := range texts {
		parsed = append(parsed, netip.MustParsePrefix(text))
	}
	return parsed
}

// The status counts nodes and names those whose network is not ready.
func TestStatusFollowsNodes(t *testing.T) {
	node, nn := kindtest.Node(t, 2, "4")
	b := newBed(t, nil, append(aReadyNode(t, 1, "4"), node, nn, aNetwork("4"))...)
	b.Reconcile("", "default")
	want := "False of generation 3 NodesNotReady: not ready: n2"
	if have := condition(b, networkv1alpha1.ConditionReady); have != want {
		t.Errorf("condition Ready %q, want %q", have, want)
	}
	status := kindtest.Get(b, aNetwork("4")).Status
	if status.NodesReady != "1/2" || status.Nodes.Total != 2 || status.MTU != 1442 {
		t.Errorf("%s of %d nodes are ready, MTU %d; want 1/2 and 1442", status.NodesReady, status.Nodes.Total, status.MTU)
	}
	nn.Status.Conditions = []metav1.Condition{{Type: networkv1alpha1.ConditionReady, Status: metav1.ConditionTrue}}
	b.Update(nn)
	have := b.Reconcile("", "default")
	if len(have.Writes) != 1 || len(have.Events) == 0 || !strings.Contains(have.Events[0], "Ready is True") {
		t.Errorf("writes %q, events %q; want the status, and an event that the network is ready", have.Writes, have.Events)
	}
}

// A deleted ClusterNetwork leaves everything as it is: pods keep their network.
func TestDeletion(t *testing.T) {
	cn := aNetwork("4")
	b := newBed(t, nil, append(aReadyNode(t, 1, "4"), cn)...)
	b.Reconcile("", "default")
	b.Delete(cn)
	kindtest.Expect(t, kindtest.Outcome{}, b.Reconcile("", "default"))
}

// A write that conflicts is no error. The ClusterNetwork is reconciled again soon. No network is in force before the
// status says so.
func TestConflictIsRetried(t *testing.T) {
	b := newBed(t, nil, append(aReadyNode(t, 1, "4"), aNetwork("4"))...)
	b.Before = func(string) error {
		return apierrors.NewConflict(schema.GroupResource{}, "default", errors.New("it has changed"))
	}
	kindtest.Expect(t, kindtest.Outcome{Writes: []string{"patch status ClusterNetwork default"},
		Result: ctrl.Result{RequeueAfter: trigger.FirstRetry}}, b.Reconcile("", "default"))
}

// drift.mode reaches the engine.
func TestDriftMode(t *testing.T) {
	for mode, want := range map[networkv1alpha1.DriftMode]bool{
		networkv1alpha1.DriftReport: true, networkv1alpha1.DriftRepair: false,
	} {
		b := newBed(t, nil, aNetwork("4", func(cn *networkv1alpha1.ClusterNetwork) { cn.Spec.Drift.Mode = mode }))
		b.Reconcile("", "default")
		if have := b.Database.ReportsOnly(); have != want {
			t.Errorf("drift.mode %s: the engine only reports: %t, want %t", mode, have, want)
		}
	}
}

// An outage of the database is an event for each of four conditions, and so is its end.
func TestEventsOfAnOutage(t *testing.T) {
	b := newBed(t, nil, append(aReadyNode(t, 1, "4"), aNetwork("4"))...)
	b.Reconcile("", "default")
	for _, away := range []bool{true, false} {
		b.Database.Away = away
		if got := b.Reconcile("", "default").Events; len(got) != 4 {
			t.Errorf("away %v: %d events, want 4:\n%s", away, len(got), strings.Join(got, "\n"))
		}
	}
}
