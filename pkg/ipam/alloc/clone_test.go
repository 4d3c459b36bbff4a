package alloc

import (
	"fmt"
	"net/netip"
	"reflect"
	"testing"
	"time"
)

// The clone and the original assign the same next address, and an allocation from the clone does not change the
// original.
func TestCloneForesees(t *testing.T) {
	a, c := newNode("10.0.0.0/28", "fd00::/124")
	for i := range 5 {
		if _, err := a.Allocate("n1", Owner(fmt.Sprint(i)), Request{}); err != nil {
			t.Fatal(err)
		}
	}
	a.Release("1")
	c.now = c.now.Add(Quarantine) // it may be assigned again, but comes last
	a.Complete()
	clone := a.Clone()
	clone.SetNode("n2", []netip.Prefix{netip.MustParsePrefix("10.0.1.0/28")}, nil)
	clone.Release("2")
	foreseen := map[Owner]Assignment{}
	for _, owner := range []Owner{"x", "y", "z"} {
		got, err := clone.Allocate("n1", owner, Request{})
		if err != nil {
			t.Fatal(err)
		}
		foreseen[owner] = got
	}
	if used, ok := a.Used(netip.MustParsePrefix("10.0.0.0/28")); used != 4 || !ok {
		t.Errorf("the original has %d addresses in use, %v; want 4: the clone's are its own", used, ok)
	}
	if _, _, ok := a.Get("2"); !ok {
		t.Error("what the clone released is gone from the original")
	}
	if owners := a.Owners("n2"); owners != nil {
		t.Errorf("the original has the clone's node: %v", owners)
	}
	for _, owner := range []Owner{"x", "y", "z"} {
		if got, err := a.Allocate("n1", owner, Request{}); err != nil || !reflect.DeepEqual(got, foreseen[owner]) {
			t.Errorf("%s gets %v (%v), the clone predicted %v", owner, got, err, foreseen[owner])
		}
	}
}

// A field that Clone forgets would silently make plans wrong.
func TestCloneHasEveryField(t *testing.T) {
	a, c := newNode("10.0.0.0/28")
	if _, err := a.Allocate("n1", "a", Request{}); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Allocate("n1", "b", Request{}); err != nil {
		t.Fatal(err)
	}
	a.Release("a")
	leaving := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/28")}
	a.SetNode("n1", leaving, leaving)
	c.now = c.now.Add(time.Second)
	a.Complete()
	a.Reserve("kept", []netip.Addr{netip.MustParseAddr("10.0.0.9")})
	a.ClaimLater("n2", "w", []netip.Addr{netip.MustParseAddr("10.0.1.3")}, Assignment{})
	a.Hold("f", []netip.Addr{netip.MustParseAddr("10.0.2.1")})
	clone := a.Clone()
	for _, part := range []any{clone, clone.nodes["n1"], clone.nodes["n1"].pools[0]} {
		value := reflect.ValueOf(part).Elem()
		for i := range value.NumField() {
			if name := value.Type().Field(i).Name; name != "mu" && value.Field(i).IsZero() {
				t.Errorf("%s.%s is not cloned", value.Type(), name)
			}
		}
	}
}
