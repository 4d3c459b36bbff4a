package daemon

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sys/unix"

	"github.com/weft-network/weft/pkg/ovn/unixctl"
	"github.com/weft-network/weft/pkg/ovndb/ovndbtest"
	"github.com/weft-network/weft/test/isolation"
	"github.com/weft-network/weft/test/poll"
)

func TestMain(m *testing.M) { os.Exit(isolation.Run(unix.CLONE_NEWNET|unix.CLONE_NEWPID, m.Run)) }

// A real ovn-controller takes the data of another cluster for outdated until it forgets the former one by command. The agent
// relies on that command.
func TestAControllerForgetsACluster(t *testing.T) {
	former, next := ovndbtest.StartCluster(t, "ovn-sb", 1), ovndbtest.StartCluster(t, "ovn-sb", 1)
	former.Ctl("init")
	next.Ctl("init")
	for i := range 30 { // its log becomes longer than that of the next one
		former.Ctl("create", "Address_Set", fmt.Sprintf("name=set%d", i))
	}
	s := ovndbtest.StartSwitch(t)
	follow := func(c *ovndbtest.Cluster) {
		t.Helper()
		s.Ctl("set", "Open_vSwitch", ".", `external_ids:ovn-remote="`+strings.Join(c.Endpoints(), ",")+`"`)
	}
	s.Ctl("set", "Open_vSwitch", ".", "external_ids:system-id=n1", "external_ids:ovn-encap-type=geneve",
		"external_ids:ovn-encap-ip=127.0.0.1", "external_ids:ovn-bridge-datapath-type="+ovndbtest.Datapath(t))
	follow(former)
	s.RunController()
	d := &Daemon{Program: "ovn-controller", Dir: s.RunDir(), Log: logr.Discard()}
	status := func() string {
		t.Helper()
		socket, err := unixctl.Socket(s.RunDir(), "ovn-controller")
		reply, callErr := unixctl.Call(t.Context(), socket, "connection-status")
		if err := errors.Join(err, callErr); err != nil {
			t.Fatal(err)
		}
		return reply
	}
	is := func(want string) {
		t.Helper()
		poll.Eventually(t, 30*time.Second, func() error {
			if have := status(); have != want {
				return fmt.Errorf("ovn-controller is %s, want %s", have, want)
			}
			return nil
		})
	}
	is("connected")
	poll.Eventually(t, 30*time.Second, poll.True("the chassis is registered", func() bool {
		return strings.Contains(former.Ctl("--bare", "--columns=name", "list", "Chassis"), "n1")
	}))

	follow(next)
	is("not connected")
	poll.Eventually(t, 30*time.Second, poll.True("ovn-controller refuses the other cluster", func() bool {
		log, err := os.ReadFile(filepath.Join(s.RunDir(), "ovn-controller.log"))
		return err == nil && strings.Contains(string(log), "stale data")
	}))
	if err := d.Call(t.Context(), "sb-cluster-state-reset"); err != nil {
		t.Fatal(err)
	}
	is("connected")
	poll.Eventually(t, 30*time.Second, poll.True("the chassis is registered with the other cluster", func() bool {
		return strings.Contains(next.Ctl("--bare", "--columns=name", "list", "Chassis"), "n1")
	}))
}
