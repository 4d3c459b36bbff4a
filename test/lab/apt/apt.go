// Package apt downloads packages of Debian with all their dependencies, without installing anything.
package apt

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// Apt is apt-get with its own state: the machine's lists and status do not change.
type Apt struct {
	dir string // state, lists and downloaded packages
}

// Source is an archive of packages: the URI of a mirror, and a suite such as "trixie".
type Source struct{ URI, Suite string }

// New prepares the state folder for an architecture of Debian ("arm64"; empty: the machine's). The empty status file makes apt download
// the whole closure, libc included.
func New(dir, architecture string, sources ...Source) (Apt, error) {
	a := Apt{dir}
	for _, sub := range []string{"lists/partial", "cache/archives/partial", "sources"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o755); err != nil {
			return a, err
		}
	}
	var list strings.Builder
	for _, s := range sources {
		fmt.Fprintf(&list, "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] %s %s main\n", s.URI, s.Suite)
	}
	return a, errors.Join(
		os.WriteFile(a.path("status"), nil, 0o644),
		os.WriteFile(a.path("sources.list"), []byte(list.String()), 0o644),
		os.WriteFile(a.path("apt.conf"), []byte(a.conf(architecture)), 0o644))
}

func (a Apt) path(elem ...string) string { return filepath.Join(append([]string{a.dir}, elem...)...) }

func (a Apt) conf(architecture string) string {
	settings := [][2]string{
		{"Dir::State::Lists", a.path("lists")},
		{"Dir::State::status", a.path("status")},
		{"Dir::Cache", a.path("cache")},
		{"Dir::Etc::SourceList", a.path("sources.list")},
		{"Dir::Etc::SourceParts", a.path("sources")},
		{"APT::Install-Recommends", "false"},
		{"APT::Sandbox::User", "root"},
		{"Acquire::Retries", "3"},
	}
	if architecture != "" {
		settings = append(settings, [2]string{"APT::Architecture", architecture}, [2]string{"APT::Architectures", architecture})
	}
	var b strings.Builder
	for _, kv := range settings {
		fmt.Fprintf(&b, "%s %q;\n", kv[0], kv[1])
	}
	return b.String()
}

// Download fetches packages with all their dependencies and returns the files.
func (a Apt) Download(ctx context.Context, packages ...string) ([]string, error) {
	args := append([]string{"install", "-y", "--download-only"}, packages...)
	for _, argv := range [][]string{{"update", "-qq"}, args} {
		cmd := exec.CommandContext(ctx, "apt-get", argv...)
		cmd.Dir, cmd.Env = a.dir, append(os.Environ(), "APT_CONFIG="+a.path("apt.conf"), "DEBIAN_FRONTEND=noninteractive")
		if text, err := cmd.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("%s: %w\n%s", cmd, err, text)
		}
	}
	return filepath.Glob(a.path("cache", "archives", "*.deb"))
}

// Mirror returns the mirror of this machine's own apt; $WEFT_DEBIAN_MIRROR overrides it.
func Mirror() (string, error) {
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
