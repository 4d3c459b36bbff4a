package node

import (
	"reflect"
	"testing"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

// State that a fork lacks would silently make plans wrong. Shared state would make plans change the network.
func TestForkHasAMemoryOfItsOwn(t *testing.T) {
	r := &Reconciler{caughtUp: true, waitingForGateway: map[string]bool{"n1": true}}
	r.remember("n1", networkv1alpha1.NodeNetworkSpec{NodeID: 1})
	r.wait("n2", true)
	fork := &Reconciler{}
	fork.rememberFrom(r)
	state := reflect.ValueOf(fork).Elem()
	for i := range state.NumField() {
		if field := state.Type().Field(i); !field.IsExported() && field.Name != "mu" && field.Name != "choosing" &&
			state.Field(i).IsZero() {
			t.Errorf("%s is not in the fork", field.Name)
		}
	}
	fork.forget("n1")
	fork.wait("n3", true)
	if r.assigned["n1"].NodeID != 1 || len(r.forget("n1")) != 1 {
		t.Error("what the fork forgot or remembered changed the original")
	}
}
