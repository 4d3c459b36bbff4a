package uplink

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

// isolated says that the process has its own network, mount and process namespaces; order is what a child shall do.
const (
	isolated = "WEFT_TEST_ISOLATED"
	orderEnv = "WEFT_TEST_ORDER"
)

// order is what a child process does, and where it dies.
type order struct {
	Dir, OpenVSwitch, Boot string
	// Undo has the child undo what it finds; else it moves the link.
	Undo bool
	// DieAt is the number of the change after which it kills itself; 0: it does not.
	DieAt int
	// StopAt is the number of the change after which it stands still, as one that hangs; its time is short then.
	StopAt int
	// Guard is false for one that dies with its guard.
	Guard   bool
	Request Request
}

// TestMain runs the tests as the first process of new namespaces; a child is the mover or its guard.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "uplink-guard" {
		os.Exit(exitCode(guardRole(os.Args[2:])))
	}
	if text := os.Getenv(orderEnv); text != "" {
		os.Exit(exitCode(childRole(text)))
	}
	flag.Parse()
	if os.Getuid() != 0 {
		fmt.Fprintln(os.Stderr, "network namespaces need root: nothing is tested")
		return
	}
	if os.Getenv(isolated) == "" {
		os.Exit(runIsolated())
	}
	if err := prepare(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func exitCode(err error) int {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func runIsolated() int {
	child := exec.Command("/proc/self/exe", os.Args[1:]...)
	child.Env = append(os.Environ(), isolated+"=1")
	child.Stdin, child.Stdout, child.Stderr = os.Stdin, os.Stdout, os.Stderr
	child.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNET | unix.CLONE_NEWNS | unix.CLONE_NEWPID, Pdeathsig: syscall.SIGKILL}
	err := child.Run()
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit) && exit.ExitCode() > 0:
		return exit.ExitCode()
	case err != nil:
		return exitCode(err)
	}
	return 0
}

// prepare gives the namespaces loopback, and files that end with them.
func prepare() error {
	lo, err := netlink.LinkByName("lo")
	if err == nil {
		err = netlink.LinkSetUp(lo)
	}
	return errors.Join(err,
		unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""),
		unix.Mount("proc", "/proc", "proc", 0, ""),
		unix.Mount("tmpfs", "/run", "tmpfs", 0, ""),
		os.MkdirAll("/run/netns", 0o755),
		os.MkdirAll("/run/tmp", 0o755),
		os.Setenv("TMPDIR", "/run/tmp"))
}

// configOf is a mover's that does not wait as long as a real one.
func configOf(dir, remote, boot string) Config {
	return Config{
		Dir: dir, OpenVSwitch: remote, Datapath: networkv1alpha1.DatapathNetdev, Log: logr.Discard(),
		MoveTimeout: 10 * time.Second, ProbeTimeout: 4 * time.Second, BootID: func() (string, error) { return boot, nil },
		GuardCommand: []string{"/proc/self/exe", "uplink-guard", "--dir=" + dir, "--ovs=" + remote, "--boot=" + boot},
	}
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
	cfg.Passed = func(point string) {
		changes++
		fmt.Println(point)
		if changes == o.DieAt {
			_ = unix.Kill(os.Getpid(), unix.SIGKILL)
			select {} // it comes at once
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
