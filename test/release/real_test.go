//go:build release

package release

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
)

// A release is made twice: the second has the same bytes. The image's programs start.
func TestARelease(t *testing.T) {
	source, err := filepath.Abs("../..")
	must(t, err)
	var sums []string
	r := &Release{Source: source, Cache: filepath.Join(t.TempDir(), "packages"), Version: "v0.0.1-test", Image: "registry.example/weft",
		Revision: "abc", Time: time.Unix(1_700_000_000, 0), Architectures: []string{"amd64", "arm64"}}
	r.Packages, err = ReadPackages(filepath.Join(source, "config", "image", "packages"))
	must(t, err)
	r.Omitted, err = ReadPackages(filepath.Join(source, "config", "image", "omitted"))
	must(t, err)
	for range 2 {
		r.Out = filepath.Join(t.TempDir(), "release")
		began := time.Now()
		must(t, r.Make(t.Context()))
		t.Logf("made in %v", time.Since(began).Round(time.Second))
		text, err := os.ReadFile(filepath.Join(r.Out, sumsFile))
		must(t, err)
		sums = append(sums, string(text))
	}
	if sums[0] != sums[1] {
		t.Errorf("the releases differ:\n%s\n%s", sums[0], sums[1])
	}
	root := extracted(t, r)
	for _, argv := range [][]string{{"/usr/bin/weft", "--help"}, {"/usr/bin/weft-agent", "--help"}, {"/usr/sbin/nft", "--version"},
		{"/usr/sbin/ovs-vswitchd", "--version"}, {"/usr/sbin/ovsdb-server", "--version"}, {"/usr/bin/ovn-northd", "--version"},
		{"/usr/bin/ovn-controller", "--version"}, {"/usr/bin/ovs-ofctl", "--version"}, {"/usr/bin/ovn-nbctl", "--version"},
		{"/usr/bin/ovn-trace", "--version"}, {"/usr/sbin/charon", "--version"},
		{"/bin/sh", "-c", "ls /etc/os-release && id root"}} {
		cmd := exec.CommandContext(t.Context(), argv[0], argv[1:]...)
		cmd.Dir, cmd.Env = "/", []string{"PATH=/usr/sbin:/usr/bin"}
		cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: root}
		if text, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v: %v\n%s", argv, err, text)
		} else {
			first, _, _ := strings.Cut(string(text), "\n")
			t.Logf("%v: %s", argv, first)
		}
	}
}

// extracted extracts the image for amd64.
func extracted(t *testing.T, r *Release) (root string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(r.Out, "image.txt"))
	must(t, err)
	_, digest, _ := strings.Cut(strings.TrimSpace(string(text)), "@")
	index, err := readIndex(filepath.Join(r.Out, "image"), digest)
	must(t, err)
	manifest, err := index.IndexManifest()
	must(t, err)
	var image v1.Image
	for _, d := range manifest.Manifests {
		if d.Platform.Architecture == "amd64" {
			image, err = index.Image(d.Digest)
			must(t, err)
		}
	}
	root = t.TempDir()
	cmd := exec.Command("tar", "-x", "-C", root)
	archive := mutate.Extract(image)
	defer archive.Close()
	cmd.Stdin = archive
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	must(t, os.MkdirAll(filepath.Join(root, "dev"), 0o755))
	must(t, os.WriteFile(filepath.Join(root, "dev", "null"), nil, 0o666))
	return root
}
