package guest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// mount is a file system below the new root.
type mount struct {
	kind, at, options string
}

// systemMounts are what a boot of an ordinary machine mounts. /run hides the machine's, which has the places of its network namespaces.
var systemMounts = []mount{
	{kind: "proc", at: "/proc"},
	{kind: "sysfs", at: "/sys"},
	{kind: "cgroup2", at: "/sys/fs/cgroup"},
	{kind: "devtmpfs", at: "/dev"},
	{kind: "devpts", at: "/dev/pts", options: "ptmxmode=0666"},
	{kind: "tmpfs", at: "/dev/shm", options: "mode=1777"},
	{kind: "mqueue", at: "/dev/mqueue"},
	{kind: "tmpfs", at: "/run", options: "mode=0755"},
}

// devLinks are links that an ordinary machine has in /dev.
var devLinks = map[string]string{"fd": "/proc/self/fd", "stdin": "fd/0", "stdout": "fd/1", "stderr": "fd/2"}

// enterRoot replaces the read-only root, which is the machine's, by an overlay that keeps changes in memory.
func enterRoot(spec Spec) error {
	place := scratch(spec.Exchange)
	root := filepath.Join(place, "root")
	if err := unix.Mount("tmpfs", place, "tmpfs", 0, "size=100%"); err != nil {
		return fmt.Errorf("memory for files: %w", err)
	}
	upper, work := filepath.Join(place, "upper"), filepath.Join(place, "work")
	if err := errors.Join(os.Mkdir(upper, 0o755), os.Mkdir(work, 0o755), os.Mkdir(root, 0o755)); err != nil {
		return err
	}
	if err := unix.Mount("overlay", root, "overlay", 0, "lowerdir=/,upperdir="+upper+",workdir="+work); err != nil {
		return fmt.Errorf("overlay: %w", err)
	}
	for _, m := range append(systemMounts, outMounts(spec)...) {
		if err := m.below(root); err != nil {
			return fmt.Errorf("mount %s: %w", m.at, err)
		}
	}
	for name, target := range devLinks {
		if err := os.Symlink(target, filepath.Join(root, "dev", name)); err != nil {
			return err
		}
	}
	return pivot(root)
}

// outMounts are the folders that reach the machine.
func outMounts(spec Spec) (all []mount) {
	for _, dir := range append(spec.Out, spec.Exchange) {
		all = append(all, mount{kind: "hostfs", at: dir, options: dir})
	}
	return all
}

func (m mount) below(root string) error {
	at := filepath.Join(root, m.at)
	if err := os.MkdirAll(at, 0o755); err != nil {
		return err
	}
	return unix.Mount(m.kind, at, m.kind, 0, m.options)
}

// pivot makes a mount the root of this process and its children. The previous root is unmounted.
func pivot(root string) error {
	if err := os.Chdir(root); err != nil {
		return err
	}
	if err := unix.PivotRoot(".", "."); err != nil { // pivot_root(2): the previous root is then mounted over the new one
		return fmt.Errorf("pivot_root: %w", err)
	}
	return errors.Join(unix.Unmount(".", unix.MNT_DETACH), os.Chdir("/"))
}
