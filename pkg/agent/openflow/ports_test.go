package openflow_test

import (
	"testing"

	"github.com/weft-network/weft/pkg/agent/openflow"
)

// A port is there from when ovs-vswitchd has made it until it has removed it.
func TestHasPort(t *testing.T) {
	s := newSwitch(t)
	has := func(want bool) {
		t.Helper()
		if got, err := openflow.HasPort(t.Context(), s.RunDir(), bridgeName, "some0"); err != nil || got != want {
			t.Errorf("the port is there: %v, %v, want %v", got, err, want)
		}
	}
	has(false)
	change(t, s, "add-port", bridgeName, "some0", "--", "set", "Interface", "some0", "type=internal")
	has(true)
	change(t, s, "del-port", bridgeName, "some0")
	has(false)
	if _, err := openflow.HasPort(t.Context(), s.RunDir(), "br-none", "some0"); err == nil {
		t.Error("a missing bridge is no error")
	}
}
