package initd

import (
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// ownTrees are overlays over the host's folders. What a machine writes there stays in its memory.
var ownTrees = []string{"/etc", "/opt", "/var"}

// makeRoot turns a new mount namespace's copy of the host's mounts into the machine's own root.
func makeRoot(spec Spec) error {
	// The mounts below must not reach the host.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make / private: %w", err)
	}
	if err := unix.Sethostname([]byte(spec.Hostname)); err != nil {
		return fmt.Errorf("set host name: %w", err)
	}
	for _, step := range []func(Spec) error{mountScratch, mountSys, mountProc, maskSysctls, mountRun, mountOverlays, bindAll, writeFiles} {
		if err := step(spec); err != nil {
			return err
		}
	}
	// This comes last and applies only within this namespace: pods receive later mounts (such as /run/netns) by
	// propagation.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SHARED, ""); err != nil {
		return fmt.Errorf("make / shared: %w", err)
	}
	return nil
}

func mount(source, target, fstype string, flags uintptr, options string) error {
	if err := unix.Mount(source, target, fstype, flags, options); err != nil {
		return fmt.Errorf("mount %s (%s): %w", target, fstype, err)
	}
	return nil
}

func mountScratch(spec Spec) error {
	return mount("tmpfs", spec.Scratch, "tmpfs", 0, "mode=700")
}

// mountSys mounts the /sys of the machine's own network namespace and keeps the cgroups below it.
func mountSys(spec Spec) error {
	kept := filepath.Join(spec.Scratch, "cgroup")
	if err := os.Mkdir(kept, 0o755); err != nil {
		return err
	}
	if err := mount("/sys/fs/cgroup", kept, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return err
	}
	if err := mount("sysfs", "/sys", "sysfs", 0, ""); err != nil {
		return err
	}
	if err := mount(kept, "/sys/fs/cgroup", "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return err
	}
	if err := unix.Unmount(kept, unix.MNT_DETACH); err != nil {
		return fmt.Errorf("unmount %s: %w", kept, err)
	}
	// This is optional: runc needs it for device rules on cgroup v2.
	_ = unix.Mount("bpf", "/sys/fs/bpf", "bpf", 0, "")
	return nil
}

func mountProc(Spec) error { return mount("proc", "/proc", "proc", 0, "") }

// maskSysctls mounts files over kernel parameters that belong to no namespace, so that no machine can change the
// host's.
func maskSysctls(spec Spec) error {
	for key, value := range spec.Sysctls {
		own, real := filepath.Join(spec.Scratch, "sysctl", key), filepath.Join("/proc/sys", key)
		if _, err := os.Stat(real); os.IsNotExist(err) {
			continue // not in this kernel
		}
		if err := os.MkdirAll(filepath.Dir(own), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(own, []byte(value+"\n"), 0o644); err != nil {
			return err
		}
		if err := mount(own, real, "", unix.MS_BIND, ""); err != nil {
			return err
		}
	}
	return nil
}

func mountRun(Spec) error {
	if err := mount("tmpfs", "/run", "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=755"); err != nil {
		return err
	}
	for _, dir := range []string{"netns", "lock", "openvswitch", "ovn"} {
		if err := os.Mkdir(filepath.Join("/run", dir), 0o755); err != nil {
			return err
		}
	}
	return nil
}

func mountOverlays(spec Spec) error {
	for _, tree := range ownTrees {
		upper, work := filepath.Join(spec.Scratch, tree, "upper"), filepath.Join(spec.Scratch, tree, "work")
		for _, dir := range []string{upper, work} {
			if err := os.MkdirAll(dir, 0o755); err != nil {
				return err
			}
		}
		options := fmt.Sprintf("lowerdir=%s,upperdir=%s,workdir=%s", tree, upper, work)
		if err := mount("overlay", tree, "overlay", 0, options); err != nil {
			return err
		}
	}
	return nil
}

func bindAll(spec Spec) error {
	for _, b := range spec.Binds {
		for _, dir := range []string{b.Source, b.Target} {
			if err := os.MkdirAll(dir, 0o755); err != nil {
				return err
			}
		}
		if err := mount(b.Source, b.Target, "", unix.MS_BIND, ""); err != nil {
			return err
		}
	}
	return nil
}

func writeFiles(spec Spec) error {
	for _, f := range spec.Files {
		if err := os.MkdirAll(filepath.Dir(f.Path), 0o755); err != nil {
			return err
		}
		// Replace the file and do not follow it: /etc/resolv.conf may be a link into the host's /run.
		if err := os.Remove(f.Path); err != nil && !os.IsNotExist(err) {
			return err
		}
		if err := os.WriteFile(f.Path, []byte(f.Content), 0o644); err != nil {
			return err
		}
	}
	return nil
}
