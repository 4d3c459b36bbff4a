package openflow_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weft-network/weft/pkg/agent/desired"
	"github.com/weft-network/weft/pkg/agent/openflow"
	"github.com/weft-network/weft/pkg/ovndb/ovndbtest"
	"github.com/weft-network/weft/test/poll"
)

// followed follows a bridge and counts the calls of changed.
type followed struct {
	*testing.T
	s      *ovndbtest.Switch
	bridge *openflow.Bridge
	calls  atomic.Int32
}

func follow(t *testing.T, s *ovndbtest.Switch, bridge *openflow.Bridge) *followed {
	t.Helper()
	f := &followed{T: t, s: s, bridge: bridge}
	bridge.Follow(t.Context(), func() { f.calls.Add(1) }, func(err error) { t.Errorf("the bridge is not followed: %v", err) })
	t.Cleanup(bridge.Close)
	return f
}

// await waits until changed was called that often in all.
func (f *followed) await(what string, calls int32) {
	f.Helper()
	poll.Wait{Timeout: time.Minute, Interval: time.Second / 50}.Eventually(f, func() error {
		if got := f.calls.Load(); got != calls {
			return fmt.Errorf("%s: changed was called %d times, want %d", what, got, calls)
		}
		return nil
	})
}

// A change of our flows by another program calls changed once, and Apply repairs it. What Apply writes, and other programs' own flows,
// call nothing.
func TestFollow(t *testing.T) {
	s := newSwitch(t)
	bridge := openflow.New(s.RunDir(), bridgeName)
	flows := shared().Flows()
	apply(t, bridge, flows, true)
	f := follow(t, s, bridge)
	copied := fmt.Sprintf("cookie=%#x,priority=3,udp,actions=drop", uint64(0x57ef)<<48|7)
	calls := int32(0)
	for _, foreign := range []struct{ what, command, flow string }{
		{"one is deleted", "del-flows", "priority=20,in_port=LOCAL"},
		{"its actions are changed", "mod-flows", "priority=20,in_port=LOCAL,actions=drop"},
		{"it is replaced", "add-flow", "cookie=0x1,priority=20,in_port=LOCAL,actions=drop"},
		{"one with our cookie is added", "add-flow", copied},
		{"all are deleted", "del-flows", ""},
	} {
		args := []string{"--strict", foreign.flow}
		if foreign.flow == "" {
			args = nil
		}
		ofctl(t, s, foreign.command, args...)
		calls++
		f.await(foreign.what, calls)
		apply(t, bridge, flows, true)
		ofctl(t, s, "add-flow", fmt.Sprintf("cookie=0x1,priority=7,udp,tp_dst=%d,actions=drop", calls)) // a foreign one
		// More than Open vSwitch sends in one message, and more than it lets wait for a slow reader.
		apply(t, bridge, append(many(3000), flows...), true)
		apply(t, bridge, flows, true)
		apply(t, bridge, flows, false)
	}
	s.KillSwitch() // ends the connection, so that no earlier call is still to come
	f.await("the switch ends", calls+1)
}

func many(n int) (flows []desired.Flow) {
	for i := range n {
		match := fmt.Sprintf("tcp6,ipv6_src=2001:db8::%x,ipv6_dst=2001:db8::%x,tp_dst=%d", i+1, i+1, i+1)
		flows = append(flows, desired.Flow{Table: 5, Priority: 9, Match: match, Actions: "drop"})
	}
	return flows
}

// A bridge that changes between Apply and Follow, and after a restart of the switch, calls changed.
func TestFollowNoticesWhatChangedBefore(t *testing.T) {
	s := newSwitch(t)
	bridge := openflow.New(s.RunDir(), bridgeName)
	flows := shared().Flows()
	apply(t, bridge, flows, true)
	ofctl(t, s, "del-flows", "--strict", "priority=20,in_port=LOCAL")
	f := follow(t, s, bridge)
	f.await("a flow is gone", 1)
	s.KillSwitch()
	f.await("the switch ends", 2)
	s.RunSwitch()
	change(t, s, "set", "Bridge", bridgeName, "external_ids:seen=again")
	apply(t, bridge, flows, true)
	again := follow(t, s, bridge)
	ofctl(t, s, "del-flows")
	again.await("all are deleted after the restart", 1)
	bridge.Close()
	ofctl(t, s, "add-flow", fmt.Sprintf("cookie=%#x,priority=3,udp,actions=drop", uint64(0x57ef)<<48|7))
	again.await("nothing after Close", 1)
}

// Where Open vSwitch offers no bridge, failed is called.
func TestFollowAnAbsentBridge(t *testing.T) {
	s := newSwitch(t)
	failed := make(chan error, 1)
	openflow.New(s.RunDir(), "br-none").Follow(t.Context(), func() { t.Error("changed is called") }, func(err error) { failed <- err })
	if err := <-failed; err == nil {
		t.Error("failed is called without an error")
	}
}

// A bridge that refuses the OpenFlow version of the monitor is a failure, and no change.
func TestFollowABridgeWithAnotherVersion(t *testing.T) {
	s := newSwitch(t)
	change(t, s, "set", "Bridge", bridgeName, "protocols=OpenFlow14")
	failed := make(chan error, 1)
	bridge := openflow.New(s.RunDir(), bridgeName)
	bridge.Follow(t.Context(), func() { t.Error("changed is called") }, func(err error) { failed <- err })
	if err := <-failed; err == nil {
		t.Error("failed is called without an error")
	}
}
