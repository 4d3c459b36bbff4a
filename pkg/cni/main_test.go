package cni

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/weft-network/weft/test/isolation"
)

func TestMain(m *testing.M) {
	if os.Getuid() != 0 { // tests that need a namespace skip
		os.Exit(m.Run())
	}
	os.Exit(isolation.Run(unix.CLONE_NEWNET|unix.CLONE_NEWNS, func() int {
		if err := isolation.Furnish(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return m.Run()
	}))
}

func needRoot(t testing.TB) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("network namespaces need root")
	}
}

// podNS creates a network namespace and returns its path.
func podNS(t testing.TB) string {
	t.Helper()
	needRoot(t)
	path := filepath.Join(t.TempDir(), "netns")
	if err := os.WriteFile(path, nil, 0o400); err != nil {
		t.Fatal(err)
	}
	if err := mountNewNS(path); err != nil {
		t.Fatalf("make network namespace: %v", err)
	}
	t.Cleanup(func() { endNS(t, path) })
	return path
}

func mountNewNS(path string) error {
	own, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		return err
	}
	defer own.Close()
	return inNetNS(own, func() error { // inNetNS returns to the own namespace afterwards
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return err
		}
		return unix.Mount("/proc/thread-self/ns/net", path, "", unix.MS_BIND, "")
	})
}

// endNS removes a namespace. It is idempotent.
func endNS(t testing.TB, path string) {
	t.Helper()
	if err := unix.Unmount(path, unix.MNT_DETACH); err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) {
		t.Errorf("remove network namespace %s: %v", path, err)
	}
}

// inPod calls do in the namespace.
func inPod(t testing.TB, path string, do func(pod *netlink.Handle) error) {
	t.Helper()
	ns, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer ns.Close()
	if err := inNetNS(ns, func() error {
		pod, err := netlink.NewHandle(unix.NETLINK_ROUTE)
		if err != nil {
			return err
		}
		defer pod.Close()
		return do(pod)
	}); err != nil {
		t.Fatal(err)
	}
}
