package cni

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/weft-network/weft/pkg/cni/cniwire"
)

// openNetNS opens a network namespace by its path, which is a mount or belongs to a process. It refuses the host's
// own namespace, where a pod's address and default route would disconnect the node. Its errors are *cniwire.Error.
func openNetNS(path string) (*os.File, error) {
	ns, err := openNoSymlink(path)
	if err != nil {
		return nil, cniwire.Errorf(cniwire.CodeInvalidNetNS, "network namespace: %v", err)
	}
	if err := checkNetNS(ns); err != nil {
		ns.Close()
		return nil, cniwire.Errorf(cniwire.CodeInvalidNetNS, "network namespace %s: %v", path, err)
	}
	return ns, nil
}

// openNoSymlink opens a namespace without following a symbolic link in the last element, and without waiting for the
// writer of a pipe. The namespace links below /proc are an exception, because only the kernel creates them. On hosts
// /var/run is a link to /run; in a container it may be missing.
func openNoSymlink(path string) (*os.File, error) {
	const flags = os.O_RDONLY | unix.O_NOFOLLOW | unix.O_NONBLOCK
	if strings.HasPrefix(path, "/proc/") {
		return os.Open(path)
	}
	ns, err := os.OpenFile(path, flags, 0)
	if rest, varRun := strings.CutPrefix(path, "/var/run/"); varRun && errors.Is(err, os.ErrNotExist) {
		return os.OpenFile("/run/"+rest, flags, 0)
	}
	return ns, err
}

func checkNetNS(ns *os.File) error {
	var fs unix.Statfs_t
	if err := unix.Fstatfs(int(ns.Fd()), &fs); err != nil {
		return err
	}
	if fs.Type != unix.NSFS_MAGIC {
		return errors.New("is not a namespace")
	}
	kind, err := unix.IoctlRetInt(int(ns.Fd()), unix.NS_GET_NSTYPE)
	if err != nil {
		return err
	}
	if kind != unix.CLONE_NEWNET {
		return errors.New("is a namespace of another kind")
	}
	own, err := isOwn(ns)
	if err == nil && own {
		err = errors.New("is the host's own")
	}
	return err
}

// isOwn compares ns with the namespace of the thread. /proc/self would be the first thread's namespace, and that
// thread may have failed to return.
func isOwn(ns *os.File) (bool, error) {
	own, err := os.Stat("/proc/thread-self/ns/net")
	if err != nil {
		return false, err
	}
	info, err := ns.Stat()
	return err == nil && os.SameFile(own, info), err
}

// maxInside bounds the threads in namespaces of pods. While a thread waits in the kernel, Go starts another thread, and ends none later.
// More threads would gain nothing, because the kernel has one lock (RTNL) for the links of all namespaces.
const maxInside = 4

// inside has an element for each thread in a namespace.
var inside = make(chan struct{}, maxInside)

// inNetNS calls do on a thread in the namespace and waits for it. Sockets that do opens, and files below
// /proc/sys/net, belong to that namespace. do must not call inNetNS.
func inNetNS(ns *os.File, do func() error) error {
	inside <- struct{}{}
	defer func() { <-inside }()
	result := make(chan error, 1)
	go func() { result <- onThreadIn(ns, do) }()
	return <-result
}

// onThreadIn leaves the thread locked if it cannot return to its own namespace. The thread then ends with the
// goroutine, so that no other goroutine runs in the wrong namespace.
func onThreadIn(ns *os.File, do func() error) error {
	runtime.LockOSThread()
	own, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		runtime.UnlockOSThread()
		return fmt.Errorf("own network namespace: %w", err)
	}
	defer own.Close()
	if err := unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET); err != nil {
		runtime.UnlockOSThread()
		return fmt.Errorf("enter network namespace %s: %w", ns.Name(), err)
	}
	defer func() {
		if unix.Setns(int(own.Fd()), unix.CLONE_NEWNET) == nil {
			runtime.UnlockOSThread()
		}
	}()
	return do()
}
