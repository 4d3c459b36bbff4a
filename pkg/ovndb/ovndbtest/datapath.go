package ovndbtest

import (
	"os"
	"testing"

	"github.com/vishvananda/netlink"
)

// datapathVariable is the environment variable that demands a datapath: "system" or "netdev". A test on another one fails.
const datapathVariable = "WEFT_DATAPATH"

// Datapath returns the datapath_type of a test's bridges. It is the agent's choice: "system" if the kernel has Open vSwitch,
// else "netdev", the userspace datapath.
func Datapath(t testing.TB) string {
	t.Helper()
	datapath := "netdev"
	if _, err := netlink.GenlFamilyGet("ovs_datapath"); err == nil {
		datapath = "system"
	}
	if want := os.Getenv(datapathVariable); want != "" && want != datapath {
		t.Fatalf("%s=%s, and this kernel's datapath is %s", datapathVariable, want, datapath)
	}
	return datapath
}

// OnKernel reports whether the test's bridges use the kernel's datapath.
func OnKernel(t testing.TB) bool {
	t.Helper()
	return Datapath(t) == "system"
}
