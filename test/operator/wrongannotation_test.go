package operator

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/networks"
	"github.com/weft-network/weft/pkg/ovn/ovnexpr"
)

// wrongAnnotation is a wrong value of an annotation of a running object. quiet, if set, is why nothing names it.
// legal, if set, is why it may change rows.
type wrongAnnotation struct{ annotation, value, quiet, legal string }

// ofPods are wrong values of the annotations that Weft reads on pods.
var ofPods = []wrongAnnotation{
	{networkv1alpha1.IngressBandwidthAnnotation, "much", "", "a running pod has no limit, as documented"},
	{networkv1alpha1.EgressBandwidthAnnotation, "0", "", "as ingress-bandwidth"},
	{networkv1alpha1.RequestedIPsAnnotation, "10.244.0.300", "pods keep their addresses; the annotation is read for a new pod", ""},
	{networkv1alpha1.RequestedIPsAnnotation, `["10.244.0.300/16"]`, "as the value before", ""},
	{networkv1alpha1.RequestedMACAnnotation, "0a:58", "as requested-ips", ""},
	{networkv1alpha1.RandomHostPortsAnnotation, "http,,", "", ""},
	{networkv1alpha1.GalaxyPortMappingAnnotation, "{", "any value is a request, and the operator writes the value", ""},
	{networks.DefaultAnnotation, "a/b/c", "as requested-ips", ""},
	{networks.Annotation, "{", "", ""},
	{networks.Annotation, "missing", "", ""},
	{networkv1alpha1.PodRecordAnnotation, "maybe", "only true requests the record", ""},
	{networkv1alpha1.IPPoolAnnotation, "missing", "pods keep their addresses; the annotation is read for a new pod", ""},
	{networkv1alpha1.IPCountAnnotation, "many", "as ip-pool", ""},
	{networkv1alpha1.IPRangesAnnotation, "x", "as ip-pool", ""},
	{networkv1alpha1.ReleasePolicyAnnotation, "Sometimes", "as ip-pool", ""},
	{networkv1alpha1.IPTTLAnnotation, "soon", "as ip-pool", ""},
	{networkv1alpha1.GalaxyPoolAnnotation, "missing", "as ip-pool", ""},
	{networkv1alpha1.GalaxyPolicyAnnotation, "7", "as ip-pool", ""},
	{networkv1alpha1.GalaxyArgsAnnotation, "{", "as ip-pool", ""},
}

// ofServices are wrong values of the annotations that Weft reads on Services.
var ofServices = []wrongAnnotation{
	{networkv1alpha1.LoadBalancerIPsAnnotation, "192.0.2.300", "", ""},
	{networkv1alpha1.LoadBalancerIPsAnnotation, "203.0.113.99", "", ""}, // readable, and of no pool
	{networkv1alpha1.LoadBalancerPoolAnnotation, "missing", "", ""},
	{networkv1alpha1.AllowSharedIPAnnotation, "{", "any value is a key", ""},
	{networkv1alpha1.SharedIPNamespacesAnnotation, "{", "", ""},
	{networkv1alpha1.EgressSourceAnnotation, "{", "", ""},
	{networkv1alpha1.IdleAnnotation, "maybe", "only true means idle", ""},
}

// ofNamespaces are wrong values of the annotations that Weft reads on namespaces.
var ofNamespaces = []wrongAnnotation{
	{networkv1alpha1.ACLLoggingAnnotation, "{", "", ""},
	{networkv1alpha1.MulticastAnnotation, "maybe", "", ""},
	{networkv1alpha1.PodRecordAnnotation, "maybe", "only true requests the record", ""},
}

// A wrong value of an annotation that Weft reads changes nothing that works, and an event or a condition of the object names the
// annotation or the value. After each value the former one is restored, and the rows are as before.
func TestAWrongAnnotationChangesNothing(t *testing.T) {
	w := newWorld(t)
	m := &wrongModel{world: w, operator: w.start()}
	m.create()
	limited := pod("limited", "n1")
	limited.Annotations = map[string]string{networkv1alpha1.IngressBandwidthAnnotation: "10M"}
	m.run(limited)
	m.port(limited)
	guard := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "guard"}}
	m.must(api.Create(m.Context(), guard))
	m.rows = m.steady()
	unreadable := []wrongAnnotation{{networks.Annotation, "{", "", ""}} // another name is another request: the pod leaves the network
	attached, balanced := pod("s", "n1"), serviceObject("lb")
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
	for _, c := range []struct {
		object client.Object
		values []wrongAnnotation
	}{{limited, ofPods}, {attached, unreadable}, {balanced, ofServices}, {namespace, ofNamespaces}, {guard, ofNamespaces[:1]}} {
		for _, v := range c.values {
			m.annotate(c.object, v)
		}
	}
}

// annotate writes a wrong value, judges what follows, and restores the former value.
func (m *wrongModel) annotate(o client.Object, v wrongAnnotation) {
	m.Helper()
	what := fmt.Sprintf("%T %s, %s: %s", o, o.GetName(), v.annotation, v.value)
	m.must(api.Get(m.Context(), client.ObjectKeyFromObject(o), o))
	former, had := o.GetAnnotations()[v.annotation]
	said := m.saidOf(o)
	m.edit(o, func() {
		all := o.GetAnnotations()
		if all == nil {
			all = map[string]string{}
		}
		all[v.annotation] = v.value
		o.SetAnnotations(all)
	})
	_, short, _ := strings.Cut(v.annotation, "/")
	m.eventually(what+": no event or condition names the annotation", func() bool {
		m.operator.settle()
		for text := range m.saidOf(o) {
			if !said[text] && (strings.Contains(text, short) || strings.Contains(text, v.value)) {
				return true
			}
		}
		return v.quiet != ""
	})
	m.operator.settle()
	if lost := lostOf(withoutRequests(m.rows), withoutRequests(m.allRows())); lost != "" && v.legal == "" {
		m.Errorf("%s: what works has changed:\n%s", what, lost)
	}
	m.edit(o, func() {
		all := o.GetAnnotations()
		if all[v.annotation] = former; !had {
			delete(all, v.annotation)
		}
		o.SetAnnotations(all)
	})
	m.until(func() error {
		m.operator.settle()
		rows := m.allRows()
		if wrong := lostOf(m.rows, rows) + lostOf(rows, m.rows); wrong != "" {
			return fmt.Errorf("after %s: %s", what, wrong)
		}
		return nil
	})
}

// withoutRequests returns rows without the hash of a pod's request for networks, for which only the node's agent looks.
func withoutRequests(rows map[rowKey]rowText) map[rowKey]rowText {
	kept := maps.Clone(rows)
	for key, row := range kept {
		kept[key] = maps.Clone(row)
		kept[key]["external_ids"] = slices.DeleteFunc(slices.Clone(row["external_ids"]), func(e string) bool {
			return strings.Contains(e, ovnexpr.NetworksKey)
		})
	}
	return kept
}

// saidOf returns the notes of an object's events, and the messages of its conditions.
func (m *wrongModel) saidOf(o client.Object) map[string]bool {
	m.Helper()
	found := map[string]bool{}
	var events eventsv1.EventList
	m.must(api.List(m.Context(), &events))
	for i := range events.Items {
		if e := &events.Items[i]; e.Regarding.Name == o.GetName() && e.Regarding.Namespace == o.GetNamespace() {
			found[e.Note] = true
		}
	}
	m.must(api.Get(context.Background(), client.ObjectKeyFromObject(o), o))
	switch o := o.(type) {
	case *corev1.Pod:
		for _, c := range o.Status.Conditions {
			found[c.Message] = true
		}
	case *corev1.Service:
		for _, c := range o.Status.Conditions {
			found[c.Message] = true
		}
	}
	return found
}
