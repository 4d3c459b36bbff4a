package ovndbtest

import (
	"fmt"
	"path/filepath"
	"syscall"
	"testing"
)

// Switch is a node's Open vSwitch in the network namespace of the test. It consists of the database, ovs-vswitchd
// and, once started, ovn-controller.
type Switch struct {
	*Server
	vswitchd, controller *process
	datapath             *nodeDatapath
}

// StartSwitch starts the database and ovs-vswitchd. It creates no bridge.
func StartSwitch(t testing.TB) *Switch {
	t.Helper()
	s := &Switch{Server: Start(t, "vswitch")}
	s.Init()
	s.datapath = newNodeDatapath(t) // removed after the end of ovs-vswitchd
	s.RunSwitch()
	return s
}

// Init creates the row that every installation creates first. One handler thread and one revalidator thread are
// enough for a test.
func (s *Switch) Init() {
	s.t.Helper()
	s.Ctl("init", "--", "set", "Open_vSwitch", ".", "other_config:n-handler-threads=1", "other_config:n-revalidator-threads=1")
}

// RunSwitch starts ovs-vswitchd, after KillSwitch.
func (s *Switch) RunSwitch() {
	s.t.Helper()
	restart(s.t, &s.vswitchd, s.dir, "ovs-vswitchd", "-vconsole:warn", "--pidfile", s.Endpoint())
	s.vswitchd.ready(s.t, filepath.Join(s.dir, fmt.Sprintf("ovs-vswitchd.%d.ctl", s.vswitchd.cmd.Process.Pid)))
}

// KillSwitch ends ovs-vswitchd without warning.
func (s *Switch) KillSwitch() { s.vswitchd.signal(syscall.SIGKILL) }

// RemoveDatapath removes the kernel's datapath, after KillSwitch, as a reboot does.
func (s *Switch) RemoveDatapath() { s.datapath.remove() }

// RunController starts ovn-controller, after KillController. It reads its configuration from the database.
func (s *Switch) RunController() {
	s.t.Helper()
	restart(s.t, &s.controller, s.dir, "ovn-controller", "-vconsole:warn", "--pidfile", s.Endpoint())
	s.controller.ready(s.t, filepath.Join(s.dir, fmt.Sprintf("ovn-controller.%d.ctl", s.controller.cmd.Process.Pid)))
}

// RunDir is the run directory of ovs-vswitchd and ovn-controller.
func (s *Switch) RunDir() string { return s.dir }

// KillController ends ovn-controller without warning: its Chassis stays.
func (s *Switch) KillController() { s.controller.signal(syscall.SIGKILL) }
