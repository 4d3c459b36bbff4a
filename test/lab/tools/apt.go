package tools

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// apt is apt-get with its own state: it installs nothing, and the machine's lists and status do not change.
type apt struct {
	dir   string // state, lists and downloaded packages
	suite string // the Debian release, such as "trixie"
}

// newApt prepares the state folder. The empty status file makes apt download the whole closure, libc included.
func newApt(dir, mirror, suite string) (apt, error) {
	a := apt{dir, suite}
	for _, sub := range []string{"lists/partial", "cache/archives/partial", "sources"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o755); err != nil {
			return a, err
		}
	}
	source := fmt.Sprintf("deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] %s %s main\n", mirror, suite)
	return a, errors.Join(
		os.WriteFile(a.path("status"), nil, 0o644),
		os.WriteFile(a.path("sources.list"), []byte(source), 0o644),
		os.WriteFile(a.path("apt.conf"), []byte(a.conf()), 0o644))
}

func (a apt) path(elem ...string) string { return filepath.Join(append([]string{a.dir}, elem...)...) }

func (a apt) conf() string {
	var b strings.Builder
	for _, kv := range [][2]string{
		{"Dir::State::Lists", a.path("lists")},
		{"Dir::State::status", a.path("status")},
		{"Dir::Cache", a.path("cache")},
		{"Dir::Etc::SourceList", a.path("sources.list")},
		{"Dir::Etc::SourceParts", a.path("sources")},
		{"APT::Install-Recommends", "false"},
		{"APT::Sandbox::User", "root"},
		{"Acquire::Retries", "3"},
	} {
		fmt.Fprintf(&b, "%s %q;\n", kv[0], kv[1])
	}
	return b.String()
}

// download fetches packages with all their dependencies and returns the files.
func (a apt) download(ctx context.Context, packages ...string) ([]string, error) {
	env := []string{"APT_CONFIG=" + a.path("apt.conf"), "DEBIAN_FRONTEND=noninteractive"}
	if err := run(ctx, a.dir, env, "apt-get", "update", "-qq"); err != nil {
		return nil, err
	}
	args := append([]string{"install", "-y", "--download-only"}, packages...)
	if err := run(ctx, a.dir, env, "apt-get", args...); err != nil {
		return nil, err
	}
	return filepath.Glob(a.path("cache", "archives", "*.deb"))
}

// debianMirror returns the mirror of this machine's own apt; $WEFT_DEBIAN_MIRROR overrides it.
func debianMirror() (string, error) {
	if m := os.Getenv("WEFT_DEBIAN_MIRROR"); m != "" {
		return m, nil
	}
	files, _ := filepath.Glob("/etc/apt/sources.list.d/*")
	for _, name := range append([]string{"/etc/apt/sources.list"}, files...) {
		text, err := os.ReadFile(name)
		if err != nil {
			continue
		}
		if m := mirrorIn(string(text), strings.HasSuffix(name, ".sources")); m != "" {
			return m, nil
		}
	}
	return "", errors.New("no Debian mirror in /etc/apt: set WEFT_DEBIAN_MIRROR")
}

// mirrorIn reads a sources file of either format (sources.list(5)) and returns the first main Debian mirror.
func mirrorIn(text string, deb822 bool) string {
	uri := ""
	for scan := bufio.NewScanner(strings.NewReader(text)); scan.Scan(); {
		words := strings.Fields(scan.Text())
		switch {
		case len(words) < 2:
		case deb822 && words[0] == "URIs:":
			uri = words[1]
		case deb822 && words[0] == "Suites:" && slices.ContainsFunc(words[1:], debianSuite):
			return uri
		case !deb822 && words[0] == "deb":
			if m := mirrorInLine(words[1:]); m != "" {
				return m
			}
		}
	}
	return ""
}

func mirrorInLine(words []string) string {
	words = slices.DeleteFunc(words, func(w string) bool { return strings.HasPrefix(w, "[") || strings.HasSuffix(w, "]") })
	if len(words) >= 2 && debianSuite(words[1]) {
		return words[0]
	}
	return ""
}

func debianSuite(s string) bool {
	return slices.Contains([]string{"bookworm", "trixie", "forky", "sid", "stable", "testing", "unstable"}, s)
}

// fetch downloads packages of a Debian release with all their dependencies. state is the cache folder for apt's state and
// the packages.
func (c Cache) fetch(ctx context.Context, state, suite string, packages []string) (debs []string, err error) {
	mirror, err := debianMirror()
	if err != nil {
		return nil, err
	}
	a, err := newApt(filepath.Join(c.Dir, state), mirror, suite)
	if err != nil {
		return nil, err
	}
	return a.download(ctx, packages...)
}

// unpack extracts packages below root without running their scripts.
func unpack(ctx context.Context, debs []string, root string) error {
	if err := os.MkdirAll(root, 0o755); err != nil {
		return err
	}
	for _, deb := range debs {
		if err := run(ctx, root, nil, "dpkg-deb", "-x", deb, root); err != nil {
			return err
		}
	}
	return nil
}
