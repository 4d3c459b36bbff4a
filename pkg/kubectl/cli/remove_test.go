package cli

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/health"
)

// A network that is being removed is never healthy. The text begins with the removal: what delays it, and how to take
// it back.
func TestARemovalIsDrawnFirst(t *testing.T) {
	for _, test := range []struct {
		name      string
		condition *metav1.Condition
		want      []string
	}{
		{"not confirmed",
			new(health.Removing(networkv1alpha1.ReasonWaitingForConfirmation, "nothing is removed without the annotation")),
			[]string{"WaitingForConfirmation\n    nothing is removed without the annotation\n",
				"-> to cancel the deletion: kubectl weft remove cancel. To confirm"}},
		{"held", new(health.Removing(networkv1alpha1.ReasonPodsRemain, "nothing is removed while 1 pod uses the network: a/b")),
			[]string{"PodsRemain\n", "a/b", "-> to cancel the deletion: kubectl weft remove cancel"}},
		{"begun", new(health.Removing(networkv1alpha1.ReasonRemovingOperands, "agents are removed")),
			[]string{"RemovingOperands\n", "agents are removed"}},
		{"no report", nil, []string{"Removing\n    weft-operands has not reported yet"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			cn, networks := healthyNetwork()
			cn.DeletionTimestamp, cn.Finalizers = &metav1.Time{Time: time.Unix(0, 0)}, []string{networkv1alpha1.OperandsFinalizer}
			if test.condition != nil {
				cn.Status.Conditions = append(cn.Status.Conditions, *test.condition)
			}
			r := statusOf(cn, networks, "")
			text := statusText(r)
			const headline = "The network is being removed (deleted at 1970-01-01T00:00:00Z): "
			if r.Healthy || r.Removing == nil || !strings.HasPrefix(text, headline) {
				t.Errorf("healthy %t:\n%s", r.Healthy, text)
			}
			for _, part := range test.want {
				if !strings.Contains(text, part) {
					t.Errorf("%q is not in:\n%s", part, text)
				}
			}
		})
	}
}
