package launch

import (
	"strings"
	"testing"

	"github.com/weft-network/weft/pkg/ovndb/ovndbtest"
)

// TestClearBridges deletes br-int once ovs-vswitchd reports a current configuration, and refuses while a foreign
// bridge exists.
func TestClearBridges(t *testing.T) {
	server := ovndbtest.Start(t, "vswitch")
	server.Ctl("--", "init", "--", "add", "Open_vSwitch", ".", "bridges", "@b", "--", "--id=@b", "create", "Bridge", "name=br-int",
		"--", "set", "Open_vSwitch", ".", "next_cfg=6", "cur_cfg=7")
	server.Ctl("--", "add", "Open_vSwitch", ".", "bridges", "@b", "--", "--id=@b", "create", "Bridge", "name=br-own")
	if err := clearBridges(t.Context(), server.Endpoint()); err == nil || !strings.Contains(err.Error(), "bridge br-own is not Weft's") {
		t.Fatalf("with a foreign bridge: %v", err)
	}
	if got := server.Ctl("--bare", "--columns=name", "find", "Bridge", "name=br-int"); !strings.Contains(got, "br-int") {
		t.Fatal("br-int is gone despite the error")
	}
	foreign := strings.TrimSpace(server.Ctl("--bare", "--columns=_uuid", "find", "Bridge", "name=br-own"))
	server.Ctl("remove", "Open_vSwitch", ".", "bridges", foreign)
	for range 2 { // the second call finds no bridge
		if err := clearBridges(t.Context(), server.Endpoint()); err != nil {
			t.Fatal(err)
		}
	}
	if got := strings.TrimSpace(server.Ctl("--bare", "--columns=name", "list", "Bridge")); got != "" {
		t.Errorf("bridges left: %q", got)
	}
}
