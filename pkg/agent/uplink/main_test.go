package uplink

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sys/unix"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/agent/hostnet"
	"github.com/weft-network/weft/test/isolation"
)

// orderEnv has the order of a child process as JSON.
const orderEnv = "WEFT_TEST_ORDER"

// order describes what a child process does and where it dies.
type order struct {
	Dir, OpenVSwitch, Boot string
	// Undo makes the child call Recover instead of moving the link.
	Undo bool
	// DieAt is the number of the change after which the child kills itself. 0 means that it does not.
	DieAt int
	// StopAt is the number of the change after which the child stops, as if it hangs. It also shortens the child's timeouts.
	StopAt int
	// Guard is false if the guard must die with the child.
	Guard   bool
	Request Request
}

// TestMain runs the tests as the first process of new namespaces. A child process runs as the mover or as its guard.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "uplink-guard" {
		os.Exit(exitCode(guardRole(os.Args[2:])))
	}
	if text := os.Getenv(orderEnv); text != "" {
		os.Exit(exitCode(childRole(text)))
	}
	os.Exit(isolation.Run(unix.CLONE_NEWNET|unix.CLONE_NEWNS|unix.CLONE_NEWPID, func() int {
		if err := isolation.Furnish(); err != nil {
			return exitCode(err)
		}
		return m.Run()
	}))
}

func exitCode(err error) int {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// configOf returns a mover's configuration with short timeouts.
func configOf(dir, remote, boot string) Config {
	return Config{
		Dir: dir, OpenVSwitch: remote, Datapath: datapath(), Log: logr.Discard(),
		MoveTimeout: 10 * time.Second, ProbeTimeout: 4 * time.Second, AwayGrace: time.Second, SwitchTimeout: 2 * time.Second,
		BootID:       func() (string, error) { return boot, nil },
		GuardCommand: []string{"/proc/self/exe", "uplink-guard", "--dir=" + dir, "--ovs=" + remote, "--boot=" + boot},
	}
}

// datapath returns the datapath that the agent chooses, as ovndbtest.Datapath does.
func datapath() networkv1alpha1.DatapathType {
	if hostnet.HasKernelDatapath() {
		return networkv1alpha1.DatapathSystem
	}
	return networkv1alpha1.DatapathNetdev
}

func guardRole(args []string) error {
	flags := flag.NewFlagSet("guard", flag.ContinueOnError)
	dir, remote, boot := flags.String("dir", "", ""), flags.String("ovs", "", ""), flags.String("boot", "", "")
	link, attempt, timeout := flags.String("link", "", ""), flags.String("attempt", "", ""), flags.Duration("timeout", 0, "")
	if err := flags.Parse(args); err != nil {
		return err
	}
	return New(configOf(*dir, *remote, *boot)).Guard(context.Background(), *link, *attempt, *timeout, os.Stdin)
}

func childRole(text string) error {
	var o order
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		return err
	}
	os.Unsetenv(orderEnv)
	cfg := configOf(o.Dir, o.OpenVSwitch, o.Boot)
	if o.StopAt > 0 {
		cfg.MoveTimeout, cfg.GuardGrace = 2*time.Second, time.Second
	}
	if !o.Guard {
		cfg.GuardCommand = []string{"/bin/true"}
	}
	changes := 0
	cfg.failpoint = func(point string) {
		// With the kernel's datapath, ovs-vswitchd sets the bridge's MTU, too, sometimes before the move does.
		if strings.HasPrefix(point, "MTU of ") && cfg.Datapath == networkv1alpha1.DatapathSystem {
			return
		}
		changes++
		fmt.Println(point)
		if changes == o.DieAt {
			_ = unix.Kill(os.Getpid(), unix.SIGKILL)
			select {} // until the signal arrives
		}
		if changes == o.StopAt {
			_ = unix.Kill(os.Getpid(), unix.SIGSTOP)
		}
	}
	if o.Undo {
		return New(cfg).Recover(context.Background())
	}
	_, err := New(cfg).Ensure(context.Background(), o.Request)
	return err
}
