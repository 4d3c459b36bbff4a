package secondary

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"golang.org/x/sys/unix"
)

// LaunchCommand is the command of weft-agent that calls Launch.
const LaunchCommand = "run-plugin"

// Launch replaces this process by a plugin that runs in the node's file system. args are the node's root and the path of
// the plugin below it. It returns only with an error.
//
// Plugins open their network namespace as /proc/PID/task/TID/ns/net. The node's /proc has the node's process IDs, and the
// agent's container has its own, so Launch mounts a /proc of this container for the plugin alone. The alternative, a
// container in the node's process namespace, would let the agent signal every process of the node.
func Launch(args []string) error {
	const rootAndPath = 2
	if len(args) != rootAndPath {
		return fmt.Errorf("%s needs the node's root and a plugin's path, not %q", LaunchCommand, args)
	}
	root, path := args[0], args[1]
	runtime.LockOSThread() // the namespace is the thread's, and exec keeps the calling thread's
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("unshare the mount namespace: %w", err)
	}
	// Mounts of the node still appear here, such as network namespaces. Mounts made here stay here.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	if err := unix.Mount("proc", filepath.Join(root, "proc"), "proc", 0, ""); err != nil {
		return fmt.Errorf("mount /proc for the plugin: %w", err)
	}
	if err := errors.Join(unix.Chroot(root), os.Chdir("/")); err != nil {
		return fmt.Errorf("change the root to %s: %w", root, err)
	}
	return fmt.Errorf("run %s: %w", path, unix.Exec(path, []string{path}, os.Environ()))
}
