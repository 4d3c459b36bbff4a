package operator

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

// setDriftMode patches the spec's drift mode.
func (w *world) setDriftMode(cn *networkv1alpha1.ClusterNetwork, mode networkv1alpha1.DriftMode) {
	w.Helper()
	patch := client.MergeFrom(cn.DeepCopy())
	cn.Spec.Drift.Mode = mode
	w.must(api.Patch(w.Context(), cn, patch))
}

// drift waits until the ClusterNetwork's drift status is as expected.
func (w *world) drift(wrong func(networkv1alpha1.DriftStatus) error) {
	w.Helper()
	w.status(func(s networkv1alpha1.ClusterNetworkStatus) error {
		if s.Drift == nil {
			return errors.New("no drift in the status")
		}
		return wrong(*s.Drift)
	})
}

func TestDriftIsRepairedAndReported(t *testing.T) {
	w := newWorld(t)
	w.network(dualStack()...)
	o := w.start()
	w.join("n1")
	pod := w.create("n1", "web")[0]
	port := w.port(pod)
	o.settle() // a change before the engine has seen its own write would be repaired without a report
	w.nb.Ctl("lsp-set-addresses", port.Name, "unknown")
	w.drift(func(d networkv1alpha1.DriftStatus) error {
		if d.Total != 1 || d.Standing != 0 || len(d.Items) != 1 {
			return fmt.Errorf("drift is %+v, want one difference, repaired", d)
		}
		item := d.Items[0]
		if item.Table != "Logical_Switch_Port" || item.Row != port.Name || item.Owner != "pod/default/web" || item.Column != "addresses" ||
			item.Want != port.Addresses[0] || item.Have != "unknown" || item.State != networkv1alpha1.DriftRepaired || item.Count != 1 ||
			item.Since.IsZero() || item.Last.IsZero() {
			return fmt.Errorf("reported difference %+v", item)
		}
		return nil
	})
	w.says(w.event("default", "DriftRepaired"), port.Name, "pod/default/web", "unknown", port.Addresses[0])
	if got := w.port(pod); !slices.Equal(got.Addresses, port.Addresses) {
		t.Errorf("addresses are %v, want %v", got.Addresses, port.Addresses)
	}
	if got := o.drifted(); !slices.Equal(got, []string{"Logical_Switch_Port Repaired"}) {
		t.Errorf("counted %v", got)
	}

	o.stop()
	again := w.start()
	w.port(w.create("n1", "later")[0]) // until the operator has reconciled all pods, a difference may be its own unfinished work
	again.settle()
	w.nb.Ctl("lsp-del", port.Name)
	w.drift(func(d networkv1alpha1.DriftStatus) error {
		if len(d.Items) < 2 || d.Items[len(d.Items)-1].Column != "addresses" || d.Total != int64(1+len(again.drifted())) {
			return fmt.Errorf("after a restart drift is %+v, want the previous entries too", d)
		}
		return nil
	})
}

func TestReportModeLeavesDriftAlone(t *testing.T) {
	w := newWorld(t)
	cn := w.network(dualStack()...)
	o := w.start()
	w.join("n1")
	port := w.port(w.create("n1", "web")[0])
	w.setDriftMode(cn, networkv1alpha1.DriftReport)
	w.until(func() error { // nothing else shows that the mode is in force
		var got networkv1alpha1.ClusterNetwork
		w.must(view.Get(t.Context(), keyOf(cn), &got))
		if got.Status.ObservedGeneration != cn.Generation {
			return fmt.Errorf("generation %d is not observed", cn.Generation)
		}
		return nil
	})
	before := o.transactions()
	w.nb.Ctl("lsp-set-addresses", port.Name, "unknown")
	w.drift(func(d networkv1alpha1.DriftStatus) error {
		if d.Standing != 1 || d.Items[0].State != networkv1alpha1.DriftStanding {
			return fmt.Errorf("drift is %+v", d)
		}
		return nil
	})
	w.status(func(s networkv1alpha1.ClusterNetworkStatus) error {
		return condition(s.Conditions, networkv1alpha1.ConditionDegraded, networkv1alpha1.ReasonDrift, metav1.ConditionTrue)
	})
	w.says(w.event("default", "DriftFound"), port.Name)
	if got := w.nb.Ctl("lsp-get-addresses", port.Name); strings.TrimSpace(got) != "unknown" || o.transactions() != before {
		t.Errorf("addresses are %s after %d writes", got, o.transactions()-before)
	}
	w.setDriftMode(cn, networkv1alpha1.DriftRepair)
	w.drift(func(d networkv1alpha1.DriftStatus) error {
		if d.Standing != 0 || d.Items[0].State != networkv1alpha1.DriftRepaired {
			return fmt.Errorf("drift is %+v", d)
		}
		return nil
	})
	w.status(func(s networkv1alpha1.ClusterNetworkStatus) error {
		return condition(s.Conditions, networkv1alpha1.ConditionDegraded, networkv1alpha1.ReasonAsExpected, metav1.ConditionFalse)
	})
	if got := w.nb.Ctl("lsp-get-addresses", port.Name); strings.TrimSpace(got) != port.Addresses[0] {
		t.Errorf("addresses are %s, want %s", got, port.Addresses[0])
	}
}

func TestForeignSwitchWithOurNameIsReportedAndStays(t *testing.T) {
	w := newWorld(t)
	w.network(dualStack()...)
	w.start()
	w.join("n1")
	w.until(func() error {
		if !slices.ContainsFunc(w.dump(), func(row string) bool {
			return strings.Contains(row, "Logical_Switch: ") && strings.Contains(row, "n1")
		}) {
			return errAbsent
		}
		return nil
	})
	id := strings.TrimSpace(w.nb.Ctl("create", "Logical_Switch", "name=n1"))
	w.status(func(s networkv1alpha1.ClusterNetworkStatus) error {
		return condition(s.Conditions, networkv1alpha1.ConditionDegraded, networkv1alpha1.ReasonDrift, metav1.ConditionTrue)
	})
	w.says(w.event("default", "NameCollision"), id, "n1", "node/n1")
	w.nb.Ctl("destroy", "Logical_Switch", id) // fails if the switch is gone
	w.drift(func(d networkv1alpha1.DriftStatus) error {
		if d.Standing != 0 {
			return fmt.Errorf("drift is %+v", d)
		}
		return nil
	})
}

// TestRowOfNoOwnerIsSwept checks that a row whose owner does not exist, or has no such rows, is swept when it
// appears, not only at the next restart.
func TestRowOfNoOwnerIsSwept(t *testing.T) {
	w := newWorld(t)
	w.network(dualStack()...)
	w.start()
	w.join("n1")
	ended := w.create("n1", "ended")[0]
	w.port(ended)
	w.phase(ended, corev1.PodSucceeded)
	w.noPort(ended)
	for _, owner := range []string{"ghost", "ended"} {
		w.nb.Ctl("lsp-add", "n1", "stray", "--", "set", "Logical_Switch_Port", "stray", "external_ids:weft.dev/unit=pod/default/"+owner)
		w.until(func() error {
			if got := w.nb.Ctl("--bare", "--columns=name", "find", "Logical_Switch_Port", "name=stray"); strings.TrimSpace(got) != "" {
				return fmt.Errorf("a port of %s still exists", owner)
			}
			return nil
		})
	}
}
