package tools

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
)

// linuxSuite is the Debian release with the kernel's source. trixie's is no alternative: User-Mode Linux 6.12 keeps too few
// registers for the vector units of newer processors and ends at boot.
const linuxSuite = "sid"

// linuxConfig lists the kernel's features. Debian's own package user-mode-linux lacks conntrack zones, without which Open
// vSwitch refuses every flow that OVN makes for services and policies.
//
//go:embed linux.config
var linuxConfig string

// linuxBuildPackages are Debian packages for the machine, as hostPackages are.
var linuxBuildPackages = []hostPackage{
	{"make", "make"}, {"gcc", "gcc"}, {"flex", "flex"}, {"bison", "bison"}, {"bc", "bc"}, {"xz", "xz-utils"},
	{"/usr/include/stdio.h", "libc6-dev"},
}

// linuxTool is the folder of the kernel with these features. Source trees with other features share the cache.
func linuxTool() string {
	sum := sha256.Sum256([]byte(linuxSuite + "\n" + linuxConfig))
	return "linux-" + hex.EncodeToString(sum[:4])
}

// Linux returns the path of User-Mode Linux, a kernel that is an ordinary program.
func (c Cache) Linux() string { return filepath.Join(c.Dir, linuxTool(), "linux") }

// MakeLinux downloads the source of Debian's present kernel and builds User-Mode Linux. It prints on out what takes minutes.
func (c Cache) MakeLinux(ctx context.Context, out io.Writer) (built bool, err error) {
	return c.once(linuxTool(), "", c.Linux(), func() error { return c.buildLinux(ctx, out) })
}

// buildLinux needs 3 GB of disk for the source, which it removes afterwards.
func (c Cache) buildLinux(ctx context.Context, out io.Writer) (err error) {
	if err := installOnHost(ctx, linuxBuildPackages); err != nil {
		return err
	}
	final, state := filepath.Dir(c.Linux()), filepath.Join("apt", linuxTool())
	work := final + ".new"
	defer func() { err = errors.Join(err, os.RemoveAll(work), os.RemoveAll(filepath.Join(c.Dir, state))) }()
	fmt.Fprintln(out, "linux: downloading the source (160 MB)")
	debs, err := c.fetch(ctx, state, linuxSuite, []string{"linux-source"})
	if err != nil {
		return err
	}
	source, err := unpackLinux(ctx, debs, work)
	if err != nil {
		return err
	}
	fmt.Fprintln(out, "linux: building User-Mode Linux of", filepath.Base(source), "(about 5 minutes of two processors)")
	objects := filepath.Join(work, "objects")
	if err := compileLinux(ctx, source, objects); err != nil {
		return err
	}
	if err := errors.Join(os.RemoveAll(final), os.MkdirAll(final, 0o755)); err != nil {
		return err
	}
	return errors.Join(
		os.Rename(filepath.Join(objects, ".config"), filepath.Join(final, "config")),
		os.Rename(filepath.Join(objects, "linux"), c.Linux()))
}

// unpackLinux returns the folder of the source, such as "linux-source-7.2".
func unpackLinux(ctx context.Context, debs []string, work string) (source string, err error) {
	if err := os.RemoveAll(work); err != nil {
		return "", err
	}
	for _, deb := range debs {
		if !strings.HasPrefix(filepath.Base(deb), "linux-source-") { // a dependency
			continue
		}
		if err := unpack(ctx, []string{deb}, filepath.Join(work, "package")); err != nil {
			return "", err
		}
	}
	archives, _ := filepath.Glob(filepath.Join(work, "package", "usr", "src", "linux-source-*.tar.xz"))
	if len(archives) != 1 {
		return "", fmt.Errorf("linux: want one archive of the source, have %q", archives)
	}
	if err := run(ctx, work, nil, "tar", "-xf", archives[0]); err != nil {
		return "", err
	}
	return filepath.Join(work, strings.TrimSuffix(filepath.Base(archives[0]), ".tar.xz")), nil
}

// compileLinux builds the kernel with the features of linuxConfig, which must all exist in its version, and no others.
func compileLinux(ctx context.Context, source, objects string) error {
	wanted := filepath.Join(objects, "wanted.config")
	if err := errors.Join(os.MkdirAll(objects, 0o755), os.WriteFile(wanted, []byte(linuxConfig), 0o644)); err != nil {
		return err
	}
	makeLinux := func(args ...string) error {
		return run(ctx, source, []string{"KCONFIG_ALLCONFIG=" + wanted}, "make", append([]string{"-s", "ARCH=um", "O=" + objects}, args...)...)
	}
	if err := makeLinux("allnoconfig"); err != nil {
		return err
	}
	config, err := os.ReadFile(filepath.Join(objects, ".config"))
	if err != nil {
		return err
	}
	if missing := missingFeatures(linuxConfig, string(config)); len(missing) > 0 {
		return fmt.Errorf("linux: %s has no %s: correct test/lab/tools/linux.config", filepath.Base(source), strings.Join(missing, ", "))
	}
	return makeLinux("-j"+strconv.Itoa(runtime.NumCPU()), "linux")
}

// missingFeatures lists the lines of a list of features that a kernel's configuration lacks.
func missingFeatures(wanted, config string) (missing []string) {
	have := map[string]bool{}
	for line := range strings.Lines(config) {
		have[strings.TrimSpace(line)] = true
	}
	for line := range strings.Lines(wanted) {
		line = strings.TrimSpace(line)
		if line != "" && !strings.HasPrefix(line, "#") && !have[line] {
			missing = append(missing, line)
		}
	}
	return missing
}
