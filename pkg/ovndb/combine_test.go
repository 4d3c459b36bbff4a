package ovndb_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/testr"

	"github.com/weft-network/weft/pkg/ovn/vswitchdb"
	"github.com/weft-network/weft/pkg/ovndb"
	"github.com/weft-network/weft/pkg/ovndb/openvswitch"
	"github.com/weft-network/weft/pkg/ovndb/ovndbtest"
	"github.com/weft-network/weft/pkg/unit"
)

// mappings is a unit with entries of ovn-bridge-mappings.
func mappings(entries string) unit.Unit {
	return unit.Unit{Key: "node/mappings", Members: []unit.Membership{{Parent: unit.Ref{Table: vswitchdb.OpenvSwitchTable},
		Column: "external_ids", Element: vswitchdb.BridgeMappingsKey, Value: entries}}}
}

// Other programs add and remove their entries before and after ours. Only a change of our own entries is foreign.
func TestAValueThatOtherProgramsChange(t *testing.T) {
	ovs := ovndbtest.Start(t, "vswitch")
	ovs.Ctl("init")
	c := &counter{}
	e := ovndb.NewEngine(ovndb.Config{Schema: openvswitch.Schema(), Endpoints: []string{ovs.Endpoint()}, Observer: c,
		Audit: 50 * time.Millisecond, Log: testr.New(t)}, nil)
	r := &running{Engine: e, counter: c, done: make(chan error, 1)}
	c.wake = r.Wake
	ctx, cancel := context.WithCancel(t.Context())
	go func() { r.done <- e.Run(ctx) }()
	defer func() { cancel(); <-r.done }()
	r.await(t, "the connection", r.Connected)

	set := func(entries string) { // and let the engine read it
		ovs.Ctl("set", "Open_vSwitch", ".", `external_ids:ovn-bridge-mappings="`+entries+`"`)
		if _, err := e.Drift(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	expect := func(want string) {
		t.Helper()
		r.await(t, want, func() bool {
			got := ovs.Ctl("--if-exists", "get", "Open_vSwitch", ".", "external_ids:ovn-bridge-mappings")
			return strings.Trim(strings.TrimSpace(got), `"`) == want
		})
	}
	r.apply(t, mappings("physnet:"))
	expect("")
	set("other:b")
	r.apply(t, mappings("physnet:br-ex"))
	expect("other:b,physnet:br-ex")
	set("other:b,physnet:br-ex,late:c")
	set("physnet:br-ex,late:d")
	writes := c.count()
	r.apply(t, mappings("physnet:br-ex"))
	if got := c.driftLog(); len(got) > 0 || c.count() != writes {
		t.Errorf("drift %v, %d writes", got, c.count()-writes)
	}
	expect("physnet:br-ex,late:d")
	set("physnet:theirs,late:d")
	expect("physnet:br-ex,late:d")
	r.await(t, "the report", func() bool { return len(c.driftLog()) > 0 })
	r.apply(t, mappings("physnet:"))
	expect("late:d")
	r.apply(t, mappings("dc:x"))
	r.apply(t, mappings("dc:"))
	expect("late:d")
	set("")
	r.apply(t, mappings("dc:x"))
	expect("dc:x")
	r.apply(t, mappings("dc:"))
	expect("")
}

// Another program writes the value while the engine writes it, too. Neither's entries are lost.
func TestAValueThatOtherProgramsChangeMeanwhile(t *testing.T) {
	ovs := ovndbtest.Start(t, "vswitch")
	ovs.Ctl("init")
	c := &counter{}
	e := ovndb.NewEngine(ovndb.Config{Schema: openvswitch.Schema(), Endpoints: []string{ovs.Endpoint()}, Observer: c, Log: testr.New(t)}, nil)
	r := &running{Engine: e, counter: c, done: make(chan error, 1)}
	c.wake = r.Wake
	ctx, cancel := context.WithCancel(t.Context())
	go func() { r.done <- e.Run(ctx) }()
	defer func() { cancel(); <-r.done }()
	r.await(t, "the connection", r.Connected)
	for i := range 20 {
		theirs, ours := fmt.Sprintf("other:b%d", i), ""
		written := make(chan struct{})
		go func() {
			defer close(written)
			ovs.Ctl("set", "Open_vSwitch", ".", `external_ids:ovn-bridge-mappings="`+theirs+`"`)
		}()
		for n, done := 0, false; !done; n++ {
			ours = fmt.Sprintf("physnet:br%d", n%7)
			r.apply(t, mappings(ours))
			select {
			case <-written:
				done = true
			default:
			}
		}
		var got string
		r.await(t, "both", func() bool {
			got = strings.Trim(strings.TrimSpace(ovs.Ctl("--if-exists", "get", "Open_vSwitch", ".", "external_ids:ovn-bridge-mappings")), `"`)
			return got == theirs+","+ours
		})
	}
}
