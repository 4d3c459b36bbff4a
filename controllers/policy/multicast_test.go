package policy

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/topology"
	"github.com/weft-network/weft/test/kindtest"
)

var multicastKey = topology.MulticastKey("multi")

// requests is the namespace multi with an annotation, or without if text is empty.
func requests(text string) *corev1.Namespace {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "multi"}}
	if text != "" {
		namespace.Annotations = map[string]string{networkv1alpha1.MulticastAnnotation: text}
	}
	return namespace
}

func offers(policy networkv1alpha1.MulticastPolicy) *networkv1alpha1.ClusterNetwork {
	cn := &networkv1alpha1.ClusterNetwork{ObjectMeta: metav1.ObjectMeta{Name: networkv1alpha1.ClusterNetworkName}}
	cn.Spec.Multicast = policy
	return cn
}

func TestReconcileMulticast(t *testing.T) {
	const onRequest = networkv1alpha1.MulticastOnRequest
	for name, c := range map[string]struct {
		objects []client.Object
		rows    int // rows and elements of the unit
		event   string
	}{
		"requested":     {objects: []client.Object{requests("true"), offers(onRequest)}, rows: 8},
		"not requested": {objects: []client.Object{requests(""), offers(onRequest)}},
		"refused":       {objects: []client.Object{requests("false"), offers(onRequest)}},
		"unreadable": {objects: []client.Object{requests("yes"), offers(onRequest)},
			event: `annotation network.weft.dev/multicast: "yes" is neither "true" nor "false"`},
		"not offered": {objects: []client.Object{requests("true"), offers(networkv1alpha1.MulticastFlood)},
			event: "annotation network.weft.dev/multicast has no effect: ClusterNetwork default has not spec.multicast OnRequest"},
		"no namespace": {objects: []client.Object{offers(onRequest)}},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, topology.KindMulticast, c.objects...)
			have := b.Reconcile("", "multi")
			if rows := have.Units[multicastKey]; len(rows) != c.rows || have.Err != "" {
				t.Errorf("unit %q, error %q; want %d lines", rows, have.Err, c.rows)
			}
			if got := strings.Join(have.Events, "\n"); !strings.Contains(got, c.event) || (c.event == "") != (got == "") {
				t.Errorf("events %q, want %q", got, c.event)
			}
			for set := range topology.MulticastSelectors("multi") {
				if made := !b.Database.Unit(set).Empty(); made != (c.rows > 0) {
					t.Errorf("%s exists: %t", set, made)
				}
			}
		})
	}
}

// What a namespace requested goes with the annotation, with the offer and with the namespace, and stays without a
// ClusterNetwork.
func TestEndOfMulticast(t *testing.T) {
	for name, c := range map[string]struct {
		end   func(b *kindtest.Bed)
		stays bool
	}{
		"the annotation":     {end: func(b *kindtest.Bed) { b.Update(requests("")) }},
		"the offer":          {end: func(b *kindtest.Bed) { b.Update(offers(networkv1alpha1.MulticastFlood)) }},
		"the namespace":      {end: func(b *kindtest.Bed) { b.Delete(requests("")) }},
		"the ClusterNetwork": {end: func(b *kindtest.Bed) { b.Delete(offers("")) }, stays: true},
		"the annotation, without a ClusterNetwork": {end: func(b *kindtest.Bed) {
			b.Delete(offers(""))
			b.Reconcile("", "multi")
			b.Update(requests(""))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, topology.KindMulticast, requests("true"), offers(networkv1alpha1.MulticastOnRequest))
			b.Reconcile("", "multi")
			c.end(b)
			b.Reconcile("", "multi")
			if left := !b.Database.Unit(multicastKey).Empty(); left != c.stays {
				t.Errorf("the rows stay: %t, want %t", left, c.stays)
			}
			for set := range topology.MulticastSelectors("multi") {
				if left := !b.Database.Unit(set).Empty(); left != c.stays {
					t.Errorf("%s stays: %t, want %t", set, left, c.stays)
				}
			}
		})
	}
}

func TestWhatConcernsMulticast(t *testing.T) {
	namespaces := multicastChanged()
	onRequest, flood := offers(networkv1alpha1.MulticastOnRequest), offers(networkv1alpha1.MulticastFlood)
	namespaceUpdated := func(before, after string) bool {
		return namespaces.Update(event.UpdateEvent{ObjectOld: requests(before), ObjectNew: requests(after)})
	}
	for name, c := range map[string]struct{ have, want bool }{
		"a new namespace":                   {namespaces.Create(event.CreateEvent{Object: requests("")}), false},
		"a new namespace that requests it":  {namespaces.Create(event.CreateEvent{Object: requests("true")}), true},
		"a namespace that requests it now":  {namespaceUpdated("", "true"), true},
		"a namespace that does not change":  {namespaceUpdated("true", "true"), false},
		"the end of a namespace":            {namespaces.Delete(event.DeleteEvent{Object: requests("")}), false},
		"the end of one that requested it":  {namespaces.Delete(event.DeleteEvent{Object: requests("true")}), true},
		"a ClusterNetwork that offers it":   {offerChanged(flood, onRequest), true},
		"another change of ClusterNetworks": {offerChanged(onRequest, onRequest), false},
	} {
		if c.have != c.want {
			t.Errorf("%s reconciles: %t, want %t", name, c.have, c.want)
		}
	}
}
