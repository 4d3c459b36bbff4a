package pod

import (
	"reflect"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/weft-network/weft/controllers/kind"
	"github.com/weft-network/weft/pkg/ipam/alloc"
	"github.com/weft-network/weft/pkg/ovn/nbdb"
	"github.com/weft-network/weft/pkg/topology"
	"github.com/weft-network/weft/pkg/unit"
)

var a, b = types.NamespacedName{Namespace: "demo", Name: "a"}, types.NamespacedName{Namespace: "demo", Name: "b"}

// State that a copy lacks would silently make plans wrong. Shared state would make plans change the network.
func TestACopyHasAStateOfItsOwn(t *testing.T) {
	r, fork := &Reconciler{}, &Reconciler{}
	r.restored.done = true
	owner, other := alloc.PodOwner("demo", "a", "uid"), alloc.PodOwner("demo", "a", "other")
	r.state.add(owner)
	r.state.store(owner, topology.PortAssignment{Slot: 1})
	r.state.made(other, "n1", "chassis")
	r.state.waiters.Wait(a, kind.Awaited{Node: "n1"})
	r.state.setLacking(a, "n1")
	r.state.miss("demo")
	r.state.see(true, true)
	r.remember(fork)
	for of, state := range map[string]reflect.Value{"": reflect.ValueOf(fork).Elem(), "state.": reflect.ValueOf(&fork.state).Elem()} {
		for i := range state.NumField() {
			if field := state.Type().Field(i); !field.IsExported() && field.Name != "mu" && state.Field(i).IsZero() {
				t.Errorf("%s%s is not in the copy", of, field.Name)
			}
		}
	}
	fork.state.take(a, "")
	fork.state.unstore(owner)
	fork.state.made(other, "n1", "new")
	fork.state.waiters.Wake(kind.Awaited{Node: "n1"})
	fork.state.setLacking(a, "")
	fork.state.misses("demo")
	stored, chassis := r.state.last(owner, "n1")
	if len(r.state.take(a, "")) != 1 || stored == nil || chassis != "chassis" || !r.state.lackOn("n1") || !r.state.misses("demo") ||
		!slices.Equal(r.state.waiters.Wake(kind.Awaited{Node: "n1"}), []types.NamespacedName{a}) {
		t.Error("what the copy forgot or remembered changed the original")
	}
}

// An earlier pod of a name is another owner.
func TestOwnersOfAName(t *testing.T) {
	var s state
	first, second := alloc.PodOwner("demo", "a", "1"), alloc.PodOwner("demo", "a", "2")
	if s.hasOthers(first) {
		t.Error("nobody has the name yet")
	}
	if s.add(first); s.hasOthers(first) || !s.hasOthers(second) {
		t.Error("one owner is not another one")
	}
	if s.add(second); !s.hasOthers(first) || !s.hasOthers(second) {
		t.Error("two owners of a name")
	}
	taken := s.take(a, second)
	if !slices.Equal(taken, []alloc.Owner{first}) || s.hasOthers(second) || !slices.Equal(s.pods(), []types.NamespacedName{a}) {
		t.Errorf("taken are %v, left are %v", taken, s.pods())
	}
	if taken := s.take(a, ""); !slices.Equal(taken, []alloc.Owner{second}) || len(s.pods()) != 0 {
		t.Errorf("taken are %v, left are %v", taken, s.pods())
	}
}

// A node changes with the first pod that lacks an address and with the last.
func TestPodsThatLackAnAddress(t *testing.T) {
	var s state
	for i, step := range []struct {
		pod     types.NamespacedName
		node    string
		changed []string
		n1, n2  bool
	}{
		{a, "", nil, false, false},
		{a, "n1", []string{"n1"}, true, false},
		{a, "n1", nil, true, false},
		{b, "n1", nil, true, false},
		{a, "", nil, true, false},
		{b, "n2", []string{"n1", "n2"}, false, true}, // recreated there
		{b, "", []string{"n2"}, false, false},
		{b, "", nil, false, false},
	} {
		got := s.setLacking(step.pod, step.node)
		if !slices.Equal(got, step.changed) || s.lackOn("n1") != step.n1 || s.lackOn("n2") != step.n2 ||
			s.isLacking(step.pod) != (step.node != "") {
			t.Errorf("step %d changed %v, and pods lack addresses on n1: %t, on n2: %t", i, got, s.lackOn("n1"), s.lackOn("n2"))
		}
	}
}

// A port whose UID another program has removed is one of its pod's name, whose end frees the address.
func TestAPortWithoutUIDBelongsToItsName(t *testing.T) {
	b := newBed(t, onNode("10.244.0.0/24"))
	b.Database.ExistingPorts = []*nbdb.LogicalSwitchPort{{Name: "demo_web", Addresses: []string{v4}, PortSecurity: []string{v4},
		ExternalIDs: map[string]string{unit.OwnerKey: string(web), "namespace": "demo", "pod": "true"},
		Options:     map[string]string{"requested-tnl-key": "16"}}}
	b.Reconcile("demo", "other")
	if pods := b.Env.AddressedPods(); !slices.Equal(pods, []types.NamespacedName{{Namespace: "demo", Name: "web"}}) {
		t.Fatalf("%v have addresses", pods)
	}
	b.Reconcile("demo", "web")
	if pods, owners := b.Env.AddressedPods(), b.Env.Addresses.Owners("n1"); len(pods)+len(owners) != 0 {
		t.Errorf("%v of %v have addresses", owners, pods)
	}
}
