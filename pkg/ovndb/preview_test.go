package ovndb_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/weft-network/weft/pkg/ovn/nbdb"
	"github.com/weft-network/weft/pkg/ovndb"
	"github.com/weft-network/weft/pkg/ovndb/ovndbtest"
	"github.com/weft-network/weft/pkg/unit"
)

func planned(t *testing.T, e *running, units ...unit.Unit) []string {
	t.Helper()
	changes, err := e.Plan(units)
	if err != nil {
		t.Fatal(err)
	}
	got := []string{}
	for _, c := range changes {
		got = append(got, fmt.Sprintf("%s %s %s %s", c.Owner, c.Op, c.Table, c.Name))
	}
	return got
}

func TestPlanListsWhatApplyingWouldChange(t *testing.T) {
	nb := ovndbtest.Start(t, "ovn-nb")
	e := run(t, nb)
	e.apply(t, switchUnit("n1", 10))
	e.apply(t, portUnit("n1", "p1", "u1", 16))
	if err := e.try(portUnit("n2", "p2", "u2", 16)); !ovndb.IsPending(err) {
		t.Fatal(err) // its switch is absent
	}
	before, writes := dump(nb), e.counter.count()
	for _, c := range []struct {
		name  string
		units []unit.Unit
		want  []string
	}{
		{"the same", []unit.Unit{switchUnit("n1", 10), portUnit("n1", "p1", "u1", 16)}, nil},
		{"a new port", []unit.Unit{portUnit("n1", "p3", "u3", 18)},
			[]string{"pod/p3 add Logical_Switch n1", "pod/p3 insert Logical_Switch_Port p3"}},
		{"a column", []unit.Unit{switchUnit("n1", 12)}, []string{"node/n1 update Logical_Switch n1"}},
		{"a switch that a port waits for", []unit.Unit{switchUnit("n2", 11)},
			[]string{"node/n2 insert Logical_Switch n2", "pod/p2 add Logical_Switch ", "pod/p2 insert Logical_Switch_Port p2"}},
		{"a new switch and a port on it", []unit.Unit{portUnit("n3", "p4", "u4", 16), switchUnit("n3", 13)},
			[]string{"node/n3 insert Logical_Switch n3", "pod/p4 add Logical_Switch ", "pod/p4 insert Logical_Switch_Port p4"}},
		{"a port whose switch is not there", []unit.Unit{portUnit("n9", "p9", "u9", 16)}, nil},
		{"the end of a port", []unit.Unit{empty(portUnit("n1", "p1", "u1", 16))},
			[]string{"pod/p1 remove Logical_Switch n1", "pod/p1 delete Logical_Switch_Port p1"}},
		{"the end of a switch with a port", []unit.Unit{empty(switchUnit("n1", 10))},
			[]string{"node/n1 delete Logical_Switch n1", "pod/p1 delete Logical_Switch_Port p1"}},
		{"two units that exchange a key", []unit.Unit{switchUnit("n5", 10), empty(switchUnit("n1", 10))},
			[]string{"node/n1 delete Logical_Switch n1", "node/n5 insert Logical_Switch n5", "pod/p1 delete Logical_Switch_Port p1"}},
	} {
		if got := planned(t, e, c.units...); !slices.Equal(got, c.want) && len(got)+len(c.want) > 0 {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
	if _, err := e.Plan([]unit.Unit{switchUnit("n4", 10)}); err == nil {
		t.Error("a tunnel key in use is planned")
	}
	if after := dump(nb); after != before || e.counter.count() != writes {
		t.Errorf("planning wrote: %s", after)
	}
}

func TestPlanIsWhatIsThenWritten(t *testing.T) {
	nb := ovndbtest.Start(t, "ovn-nb")
	e := run(t, nb)
	e.apply(t, switchUnit("n1", 10))
	u := portUnit("n1", "p1", "u1", 16)
	if got := planned(t, e, u); len(got) != 2 {
		t.Fatalf("planned %q", got)
	}
	e.apply(t, u)
	if got := planned(t, e, u); len(got) != 0 {
		t.Errorf("after it was applied: %q", got)
	}
}

// A read-only engine stores the desired units, reports the changes that they need, including dependent units, and
// changes nothing.
func TestReadOnlyEngineReportsTheDifference(t *testing.T) {
	nb := ovndbtest.Start(t, "ovn-nb")
	before := nb.Transactions()
	e := runWith(t, ovndb.Config{Endpoints: []string{nb.Endpoint()}, ReadOnly: true})
	for _, u := range []unit.Unit{switchUnit("n1", 10), portUnit("n1", "p1", "u1", 16)} {
		if err := e.try(u); !ovndb.IsPending(err) {
			t.Errorf("unit %s: %v, want it pending", u.Key, err)
		}
	}
	changes, err := e.Difference(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, c := range changes {
		got = append(got, string(c.Op)+" "+c.Table+" "+c.Name)
	}
	want := []string{"insert Logical_Switch n1", "insert Logical_Switch_Port p1", "add Logical_Switch "}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) || nb.Transactions() != before {
		t.Errorf("it would %q, want %q, and %d transactions were made", got, want, nb.Transactions()-before)
	}
	nb.Ctl("ls-add", "other")
	e.await(t, "the foreign write", func() bool {
		return len(ovndb.List(e.Conn, func(s *nbdb.LogicalSwitch) bool { return s.Name == "other" })) == 1
	})
}
