package node

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

// eventful is a reader during whose reads events arrive.
type eventful struct {
	client.Client
	event func()
}

func (e eventful) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	err := e.Client.List(ctx, list, options...)
	e.event()
	return err
}

// A node that waits for its turn is woken by an event that comes while the node reads how far the others are, past the cache, too. It
// waited for ever otherwise, if that was the last event.
func TestAnEventDuringTheReadWakesANodeThatWaits(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := networkv1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	node := func(name string, mode networkv1alpha1.GatewayMode, observed int64) *networkv1alpha1.NodeNetwork {
		nn := &networkv1alpha1.NodeNetwork{ObjectMeta: metav1.ObjectMeta{Name: name, Generation: 7}}
		nn.Spec.Gateway = networkv1alpha1.NodeGateway{Mode: mode, Unconfirmed: name == "n2"}
		nn.Status.Conditions = []metav1.Condition{{Type: networkv1alpha1.ConditionGatewayReady, Status: metav1.ConditionTrue,
			ObservedGeneration: observed}}
		return nn
	}
	n1 := node("n1", networkv1alpha1.GatewayShared, 7)
	for name, other := range map[string]*networkv1alpha1.NodeNetwork{
		"the cache has it as changing": node("n2", networkv1alpha1.GatewayLocal, 6),
		"the cache has it as settled":  node("n2", networkv1alpha1.GatewayLocal, 7),
	} {
		t.Run(name, func(t *testing.T) {
			cache := fake.NewClientBuilder().WithScheme(scheme).WithObjects(n1, other).Build()
			live := fake.NewClientBuilder().WithScheme(scheme).WithObjects(n1, node("n2", networkv1alpha1.GatewayLocal, 6)).Build()
			r, reads := &Reconciler{}, 0
			inEvent := false
			event := func() {
				if inEvent { // movers reads, too
					return
				}
				inEvent, reads = true, reads+1
				if woken := r.movers(t.Context(), nil); len(woken) != 1 || woken[0].Name != "n1" {
					t.Errorf("an event during read %d wakes %v, want n1", reads, woken)
				}
				inEvent = false
			}
			r.Client, r.Live = eventful{cache, event}, eventful{live, event}
			wanted := networkv1alpha1.NodeGateway{Mode: networkv1alpha1.GatewayLocal}
			next, err := r.gatewayInTurn(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}, n1, wanted, 1)
			if err != nil || next.Mode != networkv1alpha1.GatewayShared || reads == 0 {
				t.Errorf("the node gets %+v (%v) after %d reads, want to wait", next, err, reads)
			}
			next, err = r.gatewayInTurn(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}, n1, n1.Spec.Gateway, 1)
			if err != nil || len(r.waitingForGateway) != 0 {
				t.Errorf("a node that wants what it has gets %+v (%v), and waiting are %v", next, err, r.waitingForGateway)
			}
		})
	}
}
