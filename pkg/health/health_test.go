package health

import (
	"strings"
	"testing"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

func isFalse(kind, reason string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: metav1.ConditionFalse, Reason: reason, Message: reason}
}

// A condition that waits for a stage in the list is not reported in addition.
func TestNodeReportsTheCause(t *testing.T) {
	got := Node("a", []metav1.Condition{
		isFalse(networkv1alpha1.ConditionCNIReady, networkv1alpha1.ReasonNotReady),
		isFalse(networkv1alpha1.ConditionManagementPortReady, networkv1alpha1.ReasonWaitingForSpec),
		isFalse(networkv1alpha1.ConditionGatewayReady, networkv1alpha1.ReasonNoUplink),
	})
	if len(got) != 2 || got[0].Reason != networkv1alpha1.ReasonNoUplink || got[1].Reason != networkv1alpha1.ReasonWaitingForSpec {
		t.Errorf("problems are %+v", got)
	}
	conditions := NodeConditions(got, metav1.Condition{Type: networkv1alpha1.ConditionReady,
		Status: metav1.ConditionFalse, Reason: "r", Message: "m"})
	for i, want := range []metav1.ConditionStatus{metav1.ConditionFalse, metav1.ConditionTrue, metav1.ConditionTrue,
		metav1.ConditionFalse} {
		if c := conditions[i]; c.Status != want || strings.Contains(c.Message, "NodeNetwork/a") {
			t.Errorf("%s is %s: %s; want %s", c.Type, c.Status, c.Message, want)
		}
	}
}

func TestChangesAreReported(t *testing.T) {
	ready, not, waits := metav1.Condition{Type: "Ready", Status: metav1.ConditionTrue, Reason: "AsExpected"},
		isFalse("Ready", "Broken"), isFalse("Ready", networkv1alpha1.ReasonWaitingForAgent)
	degraded := metav1.Condition{Type: networkv1alpha1.ConditionDegraded, Status: metav1.ConditionTrue, Reason: "Broken"}
	for _, test := range []struct {
		name          string
		before, after []metav1.Condition
		reported, bad bool
	}{
		{"first and well", nil, []metav1.Condition{ready}, false, false},
		{"first and not well", nil, []metav1.Condition{not}, true, true},
		{"the same", []metav1.Condition{not}, []metav1.Condition{not}, false, false},
		{"breaks", []metav1.Condition{ready}, []metav1.Condition{not}, true, true},
		{"heals", []metav1.Condition{not}, []metav1.Condition{ready}, true, false},
		{"waits", []metav1.Condition{ready}, []metav1.Condition{waits}, true, false},
		{"another reason", []metav1.Condition{waits}, []metav1.Condition{not}, true, true},
		{"degraded", nil, []metav1.Condition{degraded}, true, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := Changes(test.before, test.after)
			if (len(got) == 1) != test.reported || test.reported && got[0].Bad != test.bad {
				t.Errorf("changes are %+v, want reported %v, bad %v", got, test.reported, test.bad)
			}
		})
	}
}

func TestTextsAreCutBetweenRunes(t *testing.T) {
	for n := range 4 {
		if got := Cut(strings.Repeat("x", n) + strings.Repeat("ü", maxText)); len(got) > maxText || !utf8.ValidString(got) {
			t.Errorf("%d bytes, valid %v", len(got), utf8.ValidString(got))
		}
	}
}
