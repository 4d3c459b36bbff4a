package pod

import (
	"reflect"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/weft-network/weft/pkg/ipam/alloc"
	"github.com/weft-network/weft/pkg/trigger"
)

// A memory that a fork lacks would make plans wrong in silence, one that it shares would make them change the network.
func TestForkHasAMemoryOfItsOwn(t *testing.T) {
	r := &Reconciler{Addresses: alloc.New(time.Now)}
	r.restored.done = true
	pod, other := types.NamespacedName{Namespace: "demo", Name: "a"}, types.NamespacedName{Namespace: "demo", Name: "b"}
	r.holders.add(pod, "demo/a/uid")
	r.holders.wait("n1", pod)
	fork, ok := r.Fork(nil, nil, r.Addresses.Clone(), nil, &trigger.Trigger{}, nil)
	if !ok {
		t.Error("the addresses in use are said not to be known")
	}
	state := reflect.ValueOf(fork).Elem()
	for i := range state.NumField() {
		if field := state.Type().Field(i); !field.IsExported() && state.Field(i).IsZero() {
			t.Errorf("%s is not in the fork", field.Name)
		}
	}
	fork.holders.take(pod, "")
	fork.holders.wait("n1", other)
	if len(r.holders.owners[pod]) != 1 || len(r.holders.wake("n1")) != 1 {
		t.Error("what the fork forgot or remembered changed the original")
	}
}
