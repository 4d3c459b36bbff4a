package gateway

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

// A node that begins or ends to be one for egress IPs is reconciled, and not for other labels.
func TestLabelsThatConcernTheGateway(t *testing.T) {
	labelled := func(labels map[string]string) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", Labels: labels}}
	}
	plain, carrier := labelled(map[string]string{"a": "b"}), labelled(map[string]string{networkv1alpha1.EgressAssignableLabel: ""})
	for name, c := range map[string]struct {
		before, after *corev1.Node
		want          bool
	}{
		"begins":        {plain, carrier, true},
		"ends":          {carrier, plain, true},
		"another label": {plain, labelled(nil), false},
	} {
		if got := nodeChanged(event.UpdateEvent{ObjectOld: c.before, ObjectNew: c.after}); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
