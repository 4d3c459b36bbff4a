package pod

import (
	"reflect"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/weft-network/weft/pkg/ipam/alloc"
)

// State that a fork lacks would silently make plans wrong. Shared state would make plans change the network.
func TestForkHasAMemoryOfItsOwn(t *testing.T) {
	r := &Reconciler{Addresses: alloc.New(time.Now)}
	r.restored.done = true
	r.egress.Store(true)
	r.routes.Store(true)
	pod, other := types.NamespacedName{Namespace: "demo", Name: "a"}, types.NamespacedName{Namespace: "demo", Name: "b"}
	r.holders.add(pod, "demo/a/uid")
	r.holders.wait("n1", pod)
	r.lacking.set(pod, "n1")
	fork := &Reconciler{}
	fork.rememberFrom(r)
	state := reflect.ValueOf(fork).Elem()
	for i := range state.NumField() {
		if field := state.Type().Field(i); !field.IsExported() && state.Field(i).IsZero() {
			t.Errorf("%s is not in the fork", field.Name)
		}
	}
	fork.holders.take(pod, "")
	fork.holders.wait("n1", other)
	fork.lacking.set(pod, "")
	if len(r.holders.owners[pod]) != 1 || len(r.holders.wake("n1")) != 1 || !r.lacking.on("n1") {
		t.Error("what the fork forgot or remembered changed the original")
	}
}
