package sandbox

import (
	"errors"
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// makeNetNS creates a network namespace and mounts it at its path.
func makeNetNS(name string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	file, err := os.OpenFile(Path(name), os.O_CREATE|os.O_EXCL|os.O_RDONLY, 0o444)
	if err != nil {
		return err
	}
	file.Close()
	made := make(chan error, 1)
	go func() { made <- mountNew(Path(name)) }()
	return <-made
}

// mountNew sacrifices its thread, which stays in the new namespace and ends with the goroutine.
func mountNew(path string) error {
	runtime.LockOSThread()
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("new network namespace: %w", err)
	}
	if err := unix.Mount("/proc/thread-self/ns/net", path, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("mount network namespace %s: %w", path, err)
	}
	return nil
}

// destroyNetNS unmounts a network namespace. It survives if something else holds it.
func destroyNetNS(name string) error {
	err := unix.Unmount(Path(name), unix.MNT_DETACH)
	if err != nil && !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.EINVAL) { // EINVAL: not mounted
		return fmt.Errorf("unmount %s: %w", Path(name), err)
	}
	if err := os.Remove(Path(name)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}
