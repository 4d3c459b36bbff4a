package ovndbtest

import (
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
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

// nodeDatapath is the kernel's datapath of one network namespace. It outlives ovs-vswitchd.
type nodeDatapath struct {
	t      testing.TB
	netNS  *os.File
	others []string // datapaths that are not the test's
}

// newNodeDatapath returns the present namespace's datapath, which ovs-vswitchd makes, or nil without the kernel's Open vSwitch.
func newNodeDatapath(t testing.TB) *nodeDatapath {
	t.Helper()
	if !OnKernel(t) {
		return nil
	}
	here, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	d := &nodeDatapath{t: t, netNS: here, others: strings.Fields(Command(t, "ovs-dpctl", "dump-dps"))}
	t.Cleanup(func() {
		d.remove()
		here.Close()
	})
	return d
}

// remove removes the datapath and its links.
func (d *nodeDatapath) remove() {
	if d == nil {
		return
	}
	d.t.Helper()
	done := make(chan error)
	go func() {
		defer close(done)
		runtime.LockOSThread() // to the end: the thread has another namespace
		if err := unix.Setns(int(d.netNS.Fd()), unix.CLONE_NEWNET); err != nil {
			done <- err
			return
		}
		for _, name := range strings.Fields(Command(d.t, "ovs-dpctl", "dump-dps")) {
			if !slices.Contains(d.others, name) {
				Command(d.t, "ovs-dpctl", "del-dp", name)
			}
		}
	}()
	if err := <-done; err != nil {
		d.t.Error(err)
	}
}
