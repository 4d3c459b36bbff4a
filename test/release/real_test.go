//go:build release

package release

import (
	"archive/tar"
	"crypto/rand"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
)

// A release is made twice: the second has the same bytes. The images' programs start, those for another architecture in an emulator.
func TestARelease(t *testing.T) {
	source, err := filepath.Abs("../..")
	must(t, err)
	var sums []string
	r := &Release{Source: source, Cache: filepath.Join(t.TempDir(), "packages"), Version: "v0.0.1-test", Image: "registry.example/weft",
		Revision: "abc", Time: time.Unix(1_700_000_000, 0), Architectures: []string{"amd64", "arm64"}, Plugins: true}
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
	for _, architecture := range r.Architectures {
		t.Run(architecture, func(t *testing.T) { startPrograms(t, r, architecture) })
	}
}

// startPrograms starts the image's programs. The shell starts others, which an emulator cannot.
func startPrograms(t *testing.T, r *Release, architecture string) {
	root := extracted(t, r, architecture)
	commands := [][]string{{"/usr/bin/weft", "--help"}, {"/usr/bin/weft-agent", "--help"}, {"/opt/weft/cni/weft-cni", "--version"},
		{"/usr/sbin/ovs-vswitchd", "--version"}, {"/usr/sbin/ovsdb-server", "--version"},
		{"/usr/bin/ovn-northd", "--version"}, {"/usr/bin/ovn-controller", "--version"}, {"/usr/bin/ovs-ofctl", "--version"},
		{"/usr/bin/ovn-nbctl", "--version"}, {"/usr/bin/ovn-trace", "--version"}, {"/usr/sbin/charon", "--version"},
		{"/usr/bin/ovsdb-tool", "create", "/db", "/usr/share/openvswitch/vswitch.ovsschema"}}
	var emulator []string
	if architecture == runtime.GOARCH {
		commands = append(commands, []string{"/usr/sbin/nft", "--version"}, // the emulator lacks its netlink protocol
			[]string{"/bin/sh", "-c", "ls /etc/os-release && id root"}, []string{"/bin/sh", "-c",
				"mkdir /run/openvswitch && ovsdb-server --detach --pidfile /db && ovs-appctl -t ovsdb-server exit"})
	} else {
		copyFile(t, qemu(t, architecture), filepath.Join(root, "emulator"))
		emulator = []string{"/emulator"}
	}
	for _, argv := range commands {
		argv = append(slices.Clone(emulator), argv...)
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

// The tests of what is computed pass on the other architecture.
func TestTheOtherArchitecture(t *testing.T) {
	other := map[string]string{"amd64": "arm64", "arm64": "amd64"}[runtime.GOARCH]
	cmd := exec.CommandContext(t.Context(), "go", "test", "-count=1", "-exec", qemu(t, other), "./pkg/facts/...", "./pkg/ipam/...",
		"./pkg/ovn/ovnexpr/...", "./pkg/trace", "./pkg/agent/desired")
	cmd.Dir, cmd.Env = filepath.Join("..", ".."), append(os.Environ(), "CGO_ENABLED=0", "GOARCH="+other)
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, text)
	} else {
		t.Logf("%s", text)
	}
}

// qemu returns an emulator for programs of an architecture, of Debian's qemu-user, which is static.
func qemu(t *testing.T, architecture string) string {
	t.Helper()
	r := &Release{Cache: t.TempDir(), Packages: []string{"qemu-user"}}
	debs, err := r.download(t.Context(), runtime.GOARCH)
	must(t, err)
	name := "usr/bin/qemu-" + map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[architecture]
	found := filepath.Join(t.TempDir(), "qemu")
	for _, deb := range debs {
		must(t, eachFile(t.Context(), "--fsys-tarfile", deb, func(h *tar.Header, body []byte) error {
			if strings.TrimPrefix(path.Clean(h.Name), "/") != name {
				return nil
			}
			return os.WriteFile(found, body, 0o755)
		}))
	}
	if _, err := os.Stat(found); err != nil {
		t.Fatalf("no %s in %v", name, debs)
	}
	return found
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	text, err := os.ReadFile(from)
	must(t, err)
	must(t, os.WriteFile(to, text, 0o755))
}

// extracted extracts the image for an architecture.
func extracted(t *testing.T, r *Release, architecture string) (root string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(r.Out, imageFile))
	must(t, err)
	_, digest, _ := strings.Cut(strings.TrimSpace(string(text)), "@")
	index, err := readIndex(filepath.Join(r.Out, "image"), digest)
	must(t, err)
	manifest, err := index.IndexManifest()
	must(t, err)
	var image v1.Image
	for _, d := range manifest.Manifests {
		if d.Platform.Architecture == architecture {
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
	random := make([]byte, 4096)
	_, err = rand.Read(random)
	must(t, err)
	for device, content := range map[string][]byte{"null": nil, "urandom": random} { // a runtime would make them
		must(t, os.WriteFile(filepath.Join(root, "dev", device), content, 0o666))
	}
	return root
}
