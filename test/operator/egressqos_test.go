package operator

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/ovn/nbdb"
	"github.com/weft-network/weft/pkg/topology"
)

func qosObject(rules ...networkv1alpha1.EgressQoSRule) *networkv1alpha1.EgressQoS {
	qos := &networkv1alpha1.EgressQoS{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: networkv1alpha1.EgressQoSName}}
	qos.Spec.Egress = rules
	return qos
}

func markTo(dscp int32, cidr string) networkv1alpha1.EgressQoSRule {
	return networkv1alpha1.EgressQoSRule{DSCP: &dscp, DstCIDR: cidr}
}

// marks waits until the EgressQoS reports this generation, and returns the matches of its rows.
func (w *world) marks(qos *networkv1alpha1.EgressQoS) (matches []string) {
	w.Helper()
	w.until(func() error {
		have := qosObject()
		if err := api.Get(w.Context(), keyOf(qos), have); err != nil {
			return err
		}
		c := meta.FindStatusCondition(have.Status.Conditions, networkv1alpha1.ConditionReady)
		if c == nil || c.ObservedGeneration != qos.Generation || c.Status != metav1.ConditionTrue {
			return fmt.Errorf("conditions are %+v, want Ready of generation %d", have.Status.Conditions, qos.Generation)
		}
		return nil
	})
	return w.qosRows()
}

func (w *world) qosRows() (matches []string) {
	w.Helper()
	for _, row := range w.selectRows()[nbdb.QoSTable] {
		if slices.Contains(row["external_ids"], "weft.dev/unit="+string(topology.EgressQoSKey("default"))) {
			matches = append(matches, fmt.Sprint(row["match"]))
		}
	}
	return matches
}

func (w *world) clearQoS(ctx context.Context) {
	w.Helper()
	w.must(client.IgnoreNotFound(api.Delete(ctx, qosObject())))
}

// TestWhatAnEgressQoSCosts checks that an EgressQoS costs one transaction for its sets and one for its rules, whatever the
// number of pods, and each change one. A pod costs one as ever. A restart writes nothing.
func TestWhatAnEgressQoSCosts(t *testing.T) {
	w := newWorld(t)
	o, pods := w.settled([]string{"n1", "n2"}, 10)
	qos := qosObject(markTo(46, "192.0.2.0/24"), markTo(10, "2001:db8::/32"), markTo(12, ""))
	var matches []string
	if got := o.changes(func() { w.must(api.Create(w.Context(), qos)); matches = w.marks(qos) }); got != 2 || len(matches) != 3 {
		t.Errorf("an EgressQoS cost %d transactions and has rules %q, want one for its sets and one for three rules", got, matches)
	}
	if got := o.changes(func() { w.port(w.create("n1", "late")[0]) }); got != 1 {
		t.Errorf("a pod cost %d transactions, want 1", got)
	}
	elements := 0
	for _, row := range w.selectRows()[nbdb.AddressSetTable] {
		if slices.ContainsFunc(row["external_ids"], func(id string) bool { return id[:min(len(id), 20)] == "weft.dev/unit=podset" }) {
			elements += len(row["addresses"])
		}
	}
	if want := 2 * (len(pods) + 1); elements != want {
		t.Errorf("the sets have %d addresses, want %d", elements, want)
	}
	if got := o.changes(func() {
		w.must(api.Get(w.Context(), keyOf(qos), qos))
		qos.Spec.Egress[2] = markTo(12, "198.51.100.0/24")
		w.must(api.Update(w.Context(), qos))
		w.marks(qos)
	}); got != 1 {
		t.Errorf("a changed rule cost %d transactions, want 1", got)
	}
	o.settle()
	o.stop()
	before := w.dump()
	o = w.start()
	w.must(o.engine.Wait(t.Context(), func() (bool, error) {
		return o.engine.Connected() && o.engine.Wanted(topology.EgressQoSKey("default")), nil
	}))
	o.settle()
	if got := o.transactions(); got != 0 {
		t.Errorf("a restart with an EgressQoS wrote %d transactions", got)
	}
	w.same(before)
	w.clearQoS(w.Context())
	w.until(func() error {
		if left := w.qosRows(); len(left) > 0 {
			return fmt.Errorf("rules %q remain", left)
		}
		return nil
	})
	if got := o.drifted(); len(got) > 0 {
		t.Errorf("reported as drift: %v", got)
	}
}

// TestPlanOfAnEgressQoS checks that a plan shows the rules, and the sets with the pods in them.
func TestPlanOfAnEgressQoS(t *testing.T) {
	w := newWorld(t)
	o, _ := w.settled([]string{"n1"}, 2)
	made := func() *networkv1alpha1.EgressQoS { return qosObject(markTo(46, "192.0.2.0/24")) }
	w.comesTrue(o.plan([]string{"plan"}, w.dryRun(made())), func() string {
		qos := made()
		w.must(api.Create(w.Context(), qos))
		w.marks(qos)
		return ""
	})
	w.comesTrue(o.plan([]string{"plan", "--delete"}, qosObject()), func() string {
		w.clearQoS(w.Context())
		return ""
	})
}
