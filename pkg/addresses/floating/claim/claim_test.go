package claim_test

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/addresses/floating/claim"
)

// A process that starts gives no address of ranges that the status does not judge: they may overlap something.
func TestPoolsThatChangedBeforeTheStart(t *testing.T) {
	for name, c := range map[string]struct {
		conditions []metav1.Condition
		refused    bool
	}{
		"new":                     {nil, true},
		"in force":                {ready(2, metav1.ConditionTrue), false},
		"refused":                 {ready(2, metav1.ConditionFalse), true},
		"changed since its check": {ready(1, metav1.ConditionTrue), true},
	} {
		pool := &networkv1alpha1.IPPool{ObjectMeta: metav1.ObjectMeta{Name: "web", Generation: 2}}
		pool.Spec = networkv1alpha1.IPPoolSpec{Location: networkv1alpha1.LocationNAT, Namespaces: &metav1.LabelSelector{},
			Ranges: []networkv1alpha1.IPPoolRange{{Addresses: "192.0.2.0/30"}}}
		pool.Status.Conditions = c.conditions
		claimer := claim.New(nil, nil, time.Now)
		claimer.ObservePool(pool)
		if _, refused, known := claimer.Book.Pool("web"); !known || (refused != "") != c.refused {
			t.Errorf("%s: known %t, refused %q", name, known, refused)
		}
	}
}

func ready(generation int64, status metav1.ConditionStatus) []metav1.Condition {
	return []metav1.Condition{{Type: networkv1alpha1.ConditionReady, Status: status, Reason: "Any", Message: "overlaps",
		ObservedGeneration: generation}}
}
