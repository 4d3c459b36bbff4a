package launch

import (
	"strings"
	"testing"

	"github.com/weft-network/weft/pkg/ovndb/ovndbtest"
)

// TestClearBridges: ours goes when ovs-vswitchd is done with it, here one that was done before; another's stops it.
func TestClearBridges(t *testing.T) {
	server := ovndbtest.Start(t, "vswitch")
	server.Ctl("--", "init", "--", "add", "Open_vSwitch", ".", "bridges", "@b", "--", "--id=@b", "create", "Bridge", "name=br-int", "--", "set", "Open_vSwitch", ".", "next_cfg=6", "cur_cfg=7")
	server.Ctl("--", "add", "Open_vSwitch", ".", "bridges", "@b", "--", "--id=@b", "create", "Bridge", "name=br-own")
	if err := clearBridges(t.Context(), server.Endpoint()); err == nil || !strings.Contains(err.Error(), "bridge br-own is not Weft's") {
		t.Fatalf("beside a bridge of somebody else: %v", err)
	}
	if got := server.Ctl("--bare", "--columns=name", "find", "Bridge", "name=br-int"); !strings.Contains(got, "br-int") {
		t.Fatal("ours is gone all the same")
	}
	server.Ctl("remove", "Open_vSwitch", ".", "bridges", strings.TrimSpace(server.Ctl("--bare", "--columns=_uuid", "find", "Bridge", "name=br-own")))
	for range 2 { // there, and gone already
		if err := clearBridges(t.Context(), server.Endpoint()); err != nil {
			t.Fatal(err)
		}
	}
	if got := strings.TrimSpace(server.Ctl("--bare", "--columns=name", "list", "Bridge")); got != "" {
		t.Errorf("left: %q", got)
	}
}
