// Package isolation runs a package's tests in namespaces of their own, which end with the process: the machine keeps nothing, whatever
// fails, and the tests see no links but theirs.
//
//	func TestMain(m *testing.M) { os.Exit(isolation.Run(unix.CLONE_NEWNET, m.Run)) }
package isolation

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// inside says that the process has its namespaces.
const inside = "WEFT_TEST_ISOLATED"

// Run calls tests in a process that has new namespaces, unix.CLONE_NEW*, and returns their exit code. With CLONE_NEWPID that process is the first
// one, and all that it started ends with it. Who is not root is told that nothing is tested.
func Run(namespaces uintptr, tests func() int) int {
	switch {
	case os.Getenv(inside) != "":
		return tests()
	case os.Getuid() != 0:
		fmt.Fprintln(os.Stderr, "namespaces need root: nothing is tested")
		return 0
	}
	child := exec.Command("/proc/self/exe", os.Args[1:]...)
	child.Env = append(os.Environ(), inside+"=1")
	child.Stdin, child.Stdout, child.Stderr = os.Stdin, os.Stdout, os.Stderr
	child.SysProcAttr = &syscall.SysProcAttr{Cloneflags: namespaces, Pdeathsig: syscall.SIGKILL}
	err := child.Run()
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit) && exit.ExitCode() > 0:
		return exit.ExitCode()
	case err != nil: // also when a signal ended it
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// Furnish gives new network, mount and process namespaces what a node has: loopback, and a /run that is nobody else's. Temporary files are
// there too: they end with the namespace, and no disk makes databases slow.
func Furnish() error {
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
