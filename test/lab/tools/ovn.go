package tools

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// suiteVariable is the environment variable with the Debian release whose OVN is used. Set WEFT_CACHE with it: a folder of
// tools has one OVN.
const suiteVariable = "WEFT_OVN_SUITE"

// ovnReleases hold, for each Debian release, what the wrappers must report: a program and the start of its first line.
// trixie is the default. Debian 12 is no alternative: its Open vSwitch 3.1 aborts in its userspace conntrack under ordinary
// load-balancer churn (conntrack.c: conn->conn_type == CT_CONN_TYPE_DEFAULT).
var ovnReleases = map[string]map[string]string{
	"trixie": {"ovs-vswitchd": "ovs-vswitchd (Open vSwitch) 3.5", "ovn-northd": "ovn-northd 25.03"},
	"sid":    {"ovn-northd": "ovn-northd "}, // it changes
}

func ovnSuite() string { return cmp.Or(os.Getenv(suiteVariable), "trixie") }

// ovnPackages are the packages of the Dockerfile but nft's, static busybox for images, tcpdump to find missing packets, and what a
// test needs that changes its root to the packages.
var ovnPackages = []string{"ovn-central", "ovn-host", "openvswitch-switch", "strongswan-charon", "strongswan-swanctl",
	"busybox-static", "tcpdump", "coreutils", "dash"}

var ovnPrograms = []string{
	"ovsdb-server", "ovsdb-tool", "ovsdb-client", "ovs-vswitchd", "ovs-vsctl", "ovs-ofctl", "ovs-appctl", "ovs-dpctl",
	"ovn-northd", "ovn-controller", "ovn-nbctl", "ovn-sbctl", "ovn-appctl", "ovn-trace", "tcpdump",
	"charon",
}

// MakeOVN downloads OVN and Open vSwitch and writes wrappers that start each program with its own C library.
func (c Cache) MakeOVN(ctx context.Context) (built bool, err error) {
	if ovnReleases[ovnSuite()] == nil {
		return false, fmt.Errorf("%s=%s: want one of %v", suiteVariable, ovnSuite(), slices.Sorted(maps.Keys(ovnReleases)))
	}
	stamp := ovnSuite() + " " + strings.Join(append(ovnPackages, ovnPrograms...), " ") + "\n"
	return c.once("ovn", stamp, c.OVN("ovn-nbctl"), func() error { return c.fetchOVN(ctx) })
}

func (c Cache) fetchOVN(ctx context.Context) error {
	debs, err := c.fetch(ctx, "apt/"+ovnSuite(), ovnSuite(), ovnPackages)
	if err != nil {
		return err
	}
	return c.unpackOVN(ctx, debs)
}

// unpackOVN works in ovn.new. The wrappers contain absolute paths, so they are written for the final folder.
func (c Cache) unpackOVN(ctx context.Context, debs []string) error {
	final, temp := filepath.Join(c.Dir, "ovn"), filepath.Join(c.Dir, "ovn.new")
	if err := os.RemoveAll(temp); err != nil {
		return err
	}
	if err := unpack(ctx, debs, filepath.Join(temp, "root")); err != nil {
		return err
	}
	if err := errors.Join(writeWrappers(temp, final), copySchemas(temp), makeLinks(filepath.Join(temp, "root"))); err != nil {
		return err
	}
	if err := errors.Join(os.RemoveAll(final), os.Rename(temp, final)); err != nil {
		return err
	}
	return c.checkOVN(ctx)
}

func writeWrappers(temp, final string) error {
	if err := os.MkdirAll(filepath.Join(temp, "bin"), 0o755); err != nil {
		return err
	}
	root := filepath.Join(temp, "root")
	for _, name := range ovnPrograms {
		found, err := findProgram(root, name)
		if err != nil {
			return err
		}
		inRoot, err := filepath.Rel(root, found)
		if err != nil {
			return err
		}
		text := wrapper(filepath.Join(final, "root"), name, inRoot)
		if err := os.WriteFile(filepath.Join(temp, "bin", name), []byte(text), 0o755); err != nil {
			return err
		}
	}
	return nil
}

// wrapper starts a program through its own dynamic loader, so that it does not depend on the machine's libc. charon has
// libraries of its own, and needs a configuration even to print its version.
func wrapper(root, name, inRoot string) string {
	libraries := filepath.Join(root, "usr/lib/x86_64-linux-gnu") + ":" + filepath.Join(root, "usr/lib/ipsec")
	return fmt.Sprintf("#!/bin/sh\nexport STRONGSWAN_CONF=${STRONGSWAN_CONF:-%s}\nexec %s --library-path %s --argv0 %s %s \"$@\"\n",
		filepath.Join(root, "etc/strongswan.conf"), filepath.Join(root, "usr/lib64/ld-linux-x86-64.so.2"), libraries, name,
		filepath.Join(root, inRoot))
}

// makeLinks makes the links of Debian's base-files, through which programs find their loader, and the Dockerfile's link to charon.
func makeLinks(root string) (err error) {
	for _, name := range []string{"bin", "lib", "lib64", "sbin"} {
		err = errors.Join(err, os.Symlink("usr/"+name, filepath.Join(root, name)))
	}
	return errors.Join(err, os.Symlink("../lib/ipsec/charon", filepath.Join(root, "usr/sbin/charon")))
}

// findProgram searches Debian's program folders. ovs-vswitchd's alternatives, and charon, are below usr/lib.
func findProgram(root, name string) (string, error) {
	for _, dir := range []string{"usr/bin", "usr/sbin", "usr/lib/openvswitch-switch", "usr/lib/openvswitch-common", "usr/lib/ipsec"} {
		path := filepath.Join(root, dir, name)
		if info, err := os.Lstat(path); err == nil && info.Mode().IsRegular() {
			return path, nil
		}
	}
	return "", fmt.Errorf("%s: not found in the unpacked packages", name)
}

func copySchemas(temp string) error {
	share := filepath.Join(temp, "share")
	if err := os.MkdirAll(share, 0o755); err != nil {
		return err
	}
	return filepath.WalkDir(filepath.Join(temp, "root", "usr", "share"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".ovsschema") {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(share, filepath.Base(path)), text, 0o644)
	})
}

func (c Cache) checkOVN(ctx context.Context) error {
	for name, want := range ovnReleases[ovnSuite()] {
		out, err := exec.CommandContext(ctx, c.OVN(name), "--version").CombinedOutput()
		if err != nil {
			return fmt.Errorf("%s --version: %w\n%s", name, err, out)
		}
		if !strings.HasPrefix(string(out), want) {
			return fmt.Errorf("%s: want %q, have %q", name, want, strings.SplitN(string(out), "\n", 2)[0])
		}
	}
	return nil
}
