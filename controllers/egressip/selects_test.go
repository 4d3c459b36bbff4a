package egressip

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/topology"
	"github.com/weft-network/weft/test/kindtest"
)

// An EgressIP whose selectors select no pod says so, and stays Assigned.
func TestEgressIPOfNoPod(t *testing.T) {
	e := anEgressIP(ips("192.0.2.100"), func(e *networkv1alpha1.EgressIP) {
		e.Spec.NamespaceSelector.MatchLabels = map[string]string{"team": "a"}
	})
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "demo"}}
	b := kindtest.New(t, Kinds, topology.KindEgressIP, nil, append(carriersOf(t, 1), e, namespace)...)
	const assigned = "192.0.2.100=n1 Assigned True of generation 5 AsExpected: nodes carry all addresses"
	b.Reconcile("", "out")
	if got := state(b); got != assigned+"; the selectors select no pod" {
		t.Error(got)
	}
	b.ExpectSettled("", "out")
	namespace = kindtest.Get(b, namespace)
	namespace.Labels = map[string]string{"team": "a"}
	b.Update(namespace)
	b.Reconcile("", "out")
	if got := state(b); got != assigned {
		t.Error(got)
	}
	b.ExpectSettled("", "out")
}
