package operator

import (
	"errors"
	"fmt"
	"maps"
	"testing"

	corev1 "k8s.io/api/core/v1"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/ovn/nbdb"
	"github.com/weft-network/weft/pkg/ovndb"
	"github.com/weft-network/weft/pkg/ovndb/ovndbtest"
)

// limits returns the rates of the rules in the database in kbit/s, by match.
func (w *world) limits() map[string]int {
	found := map[string]int{}
	for _, rule := range ovndb.List(w.rows, func(*nbdb.QoS) bool { return true }) {
		if rule.Bandwidth == nil { // the rule that marks replies
			continue
		}
		found[rule.Direction+" "+rule.Match] = rule.Bandwidth[nbdb.QoSBandwidthRate]
	}
	return found
}

// versionsOf returns the versions of a table's rows. A write without a change changes them too.
func (w *world) versionsOf(table string) string {
	w.Helper()
	request := fmt.Sprintf(`["OVN_Northbound",{"op":"select","table":%q,"where":[],"columns":["_uuid","_version"]}]`, table)
	return ovndbtest.Command(w, "ovsdb-client", "transact", w.nb.Endpoint(), request)
}

func (w *world) awaitLimits(want map[string]int) {
	w.Helper()
	w.until(func() error {
		if got := w.limits(); !maps.Equal(got, want) {
			return fmt.Errorf("limits are %v, want %v", got, want)
		}
		return nil
	})
}

func TestLimitsFollowThePod(t *testing.T) {
	w := newWorld(t)
	w.start()
	w.network(entry("10.244.0.0/16", 24))
	w.join("n1")
	web := annotated("web", "n1", networkv1alpha1.IngressBandwidthAnnotation, "10M")
	web.Annotations[networkv1alpha1.EgressBandwidthAnnotation] = "2500k"
	w.run(web)
	w.port(web)
	sends, receives := `from-lport inport == "default_web"`, `to-lport outport == "default_web"`
	w.awaitLimits(map[string]int{receives: 10_000, sends: 2_500})

	patch(w, web, func(p *corev1.Pod) { p.Annotations[networkv1alpha1.EgressBandwidthAnnotation] = "5M" })
	w.awaitLimits(map[string]int{receives: 10_000, sends: 5_000})
	patch(w, web, func(p *corev1.Pod) { delete(p.Annotations, networkv1alpha1.IngressBandwidthAnnotation) })
	w.awaitLimits(map[string]int{sends: 5_000})
	// A running pod keeps its port. An event reports that it is not limited.
	patch(w, web, func(p *corev1.Pod) { p.Annotations[networkv1alpha1.EgressBandwidthAnnotation] = "fast" })
	w.says(w.event("web", "InvalidBandwidth"), networkv1alpha1.EgressBandwidthAnnotation, `"fast"`, "not limited")
	w.awaitLimits(map[string]int{})
	w.port(web)
	patch(w, web, func(p *corev1.Pod) { p.Annotations[networkv1alpha1.EgressBandwidthAnnotation] = "1M" })
	w.awaitLimits(map[string]int{sends: 1_000})
	w.delete(web)
	w.awaitLimits(map[string]int{})
}

func TestPodWithAnInvalidLimitWaits(t *testing.T) {
	w := newWorld(t)
	o := w.start()
	w.network(entry("10.244.0.0/16", 24))
	w.join("n1")
	web := annotated("web", "n1", networkv1alpha1.IngressBandwidthAnnotation, "10M")
	web.Annotations[networkv1alpha1.EgressBandwidthAnnotation] = "1"
	w.run(web)
	w.says(w.event("web", "InvalidBandwidth"), networkv1alpha1.EgressBandwidthAnnotation, `"1"`)
	o.settle()
	if _, err := w.findPort(web); !errors.Is(err, errAbsent) {
		t.Errorf("%v, want no port", err)
	}
	w.awaitLimits(map[string]int{})
	patch(w, web, func(p *corev1.Pod) { p.Annotations[networkv1alpha1.EgressBandwidthAnnotation] = "1M" })
	w.port(web)
	w.awaitLimits(map[string]int{`from-lport inport == "default_web"`: 1_000, `to-lport outport == "default_web"`: 10_000})
}

// TestLimitsOutliveTheOperator checks that a restart writes nothing, and removes the limits of pods deleted
// meanwhile.
func TestLimitsOutliveTheOperator(t *testing.T) {
	w := newWorld(t)
	w.start()
	w.network(entry("10.244.0.0/16", 24))
	w.join("n1")
	stays := annotated("stays", "n1", networkv1alpha1.IngressBandwidthAnnotation, "10M")
	stays.Annotations[networkv1alpha1.RequestedMACAnnotation] = "52:54:00:12:34:56"
	goes := annotated("goes", "n1", networkv1alpha1.EgressBandwidthAnnotation, "5M")
	w.run(stays, goes)
	w.port(stays)
	w.port(goes)
	before := w.versionsOf("QoS")
	w.operators[0].stop()
	o := w.start()
	w.port(w.create("n1", "third")[0])
	o.settle()
	if after := w.versionsOf("QoS"); after != before {
		t.Errorf("the restart wrote: versions are %s, were %s", after, before)
	}
	w.awaitLimits(map[string]int{`to-lport outport == "default_stays"`: 10_000, `from-lport inport == "default_goes"`: 5_000})
	o.stop()
	w.delete(goes)
	w.start()
	w.awaitLimits(map[string]int{`to-lport outport == "default_stays"`: 10_000})
}

// TestPlanOfALimit plans the limits of a new pod, of a running pod, and a pod's deletion.
func TestPlanOfALimit(t *testing.T) {
	w := newWorld(t)
	o, pods := w.settled([]string{"n1"}, 2)
	made := func() *corev1.Pod {
		p := annotated("made", "n1", networkv1alpha1.IngressBandwidthAnnotation, "1M")
		p.Annotations[networkv1alpha1.EgressBandwidthAnnotation] = "2M"
		return p
	}
	planned := o.plan([]string{"plan"}, w.dryRun(made()))
	for _, c := range planned.Changes {
		if c.Op == ovndb.OpInsert && c.UUID != "(known after apply)" {
			t.Errorf("the UUID of a row of %s of a pod without UID is %s", c.Table, c.UUID)
		}
	}
	w.comesTrue(planned, func() string {
		p := made()
		w.run(p)
		return string(p.UID)
	})
	limited := &corev1.Pod{}
	w.must(api.Get(t.Context(), keyOf(pods[0]), limited))
	limited.Annotations = map[string]string{networkv1alpha1.IngressBandwidthAnnotation: "10M"}
	w.comesTrue(o.plan([]string{"plan"}, limited), func() string {
		patch(w, pods[0], func(p *corev1.Pod) { p.Annotations = limited.Annotations })
		return ""
	})
	w.comesTrue(o.plan([]string{"plan", "--delete"}, pods[0]), func() string {
		w.delete(pods[0])
		return ""
	})
}
