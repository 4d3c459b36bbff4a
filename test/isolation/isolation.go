// Package isolation runs a package's tests in their own namespaces, which end with the process. The machine does not
// change, whatever fails, and the tests see only their own links.
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

// inside is the environment variable that marks the process in the new namespaces.
const inside = "WEFT_TEST_ISOLATED"

// Run calls tests in a process with new namespaces, unix.CLONE_NEW*, and returns their exit code. With CLONE_NEWPID
// that process is the first one, and all its children end with it. Without root, Run prints that nothing is tested.
func Run(namespaces uintptr, tests func() int) int {
	switch {
	case os.Getenv(inside) != "":
		return tests()
	case os.Getuid() != 0:
		fmt.Fprintln(os.Stderr, "namespaces need root: nothing is tested")
		return 0
	}
	child := exec.Command("/proc/self/exe", os.Args[1:]...)
	child.Env = append(os.Environ(), inside+"=1", "KUBE_CACHE_MUTATION_DETECTOR=true") // a test that changes a cached object fails
	child.Stdin, child.Stdout, child.Stderr = os.Stdin, os.Stdout, os.Stderr
	child.SysProcAttr = &syscall.SysProcAttr{Cloneflags: namespaces, Pdeathsig: syscall.SIGKILL}
	err := child.Run()
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit) && exit.ExitCode() > 0:
		return exit.ExitCode()
	case err != nil: // also if a signal ended it
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// Furnish prepares new network, mount and process namespaces like a node's: loopback, and a private /run. Temporary
// files are there too, so that they end with the namespace and no disk slows databases down.
func Furnish() error {
	lo, err := netlink.LinkByName("lo")
	if err == nil {
		err = netlink.LinkSetUp(lo)
	}
	return errors.Join(err, OwnProcesses(),
		unix.Mount("tmpfs", "/run", "tmpfs", 0, ""),
		os.MkdirAll("/run/netns", 0o755),
		os.MkdirAll("/run/tmp", 0o755),
		os.Setenv("TMPDIR", "/run/tmp"))
}

// OwnProcesses prepares new mount and process namespaces: /proc has only their processes.
func OwnProcesses() error {
	return errors.Join(unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""), unix.Mount("proc", "/proc", "proc", 0, ""))
}
