package release

import (
	"archive/tar"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	"github.com/weft-network/weft/pkg/install/programs"
)

const module = "github.com/weft-network/weft"

// program is a Go program of the image.
type program struct{ pkg, path string }

// weftPrograms are the programs of the Dockerfile's first stage.
var weftPrograms = []program{
	{module, "usr/bin/weft"},
	{module + "/cmd/weft-agent", "usr/bin/weft-agent"},
	{module + "/cmd/weft-ovn", "usr/bin/weft-ovn"},
	{module + "/cmd/weft-capture", "usr/bin/weft-capture"},
	{module + "/cmd/weft-cni", "opt/weft/cni/weft-cni"},
	{"github.com/containernetworking/plugins/plugins/main/loopback", "opt/weft/cni/loopback"},
}

// Said is the list of Debian's programs that this machine has run, and the versions of their packages.
type Said struct {
	file     string
	packages map[string]string
}

// weftTree returns the tree of Weft's own files. work is a folder for this architecture.
func (r *Release) weftTree(ctx context.Context, architecture string, debian Tree, work string, said *Said) (Tree, error) {
	tree := Tree{}
	for _, p := range weftPrograms {
		out := filepath.Join(work, "out", p.path)
		if err := r.build(ctx, p.pkg, out, "linux", architecture); err != nil {
			return nil, err
		}
		body, err := os.ReadFile(out)
		if err != nil {
			return nil, err
		}
		tree.addFile(p.path, 0o755, body, "")
	}
	tree.addLink("usr/sbin/charon", "../lib/ipsec/charon", "")
	licence, err := os.ReadFile(filepath.Join(r.Source, "LICENSE"))
	if err != nil {
		return nil, err
	}
	tree.addFile("usr/share/doc/weft/copyright", 0o644, licence, "")
	list, err := r.describe(ctx, architecture, debian, tree, work, said)
	if err != nil {
		return nil, err
	}
	tree.addFile(strings.TrimPrefix(programs.File, "/"), 0o644, list, "")
	tree.addFolders(debian)
	return tree, nil
}

// addFolders adds the folders of the files that the layer below lacks.
func (t Tree) addFolders(below Tree) {
	for name := range t {
		for dir := filepath.Dir(name); dir != "."; dir = filepath.Dir(dir) {
			if _, ok := below[dir]; !ok {
				t[dir] = Entry{Header: tar.Header{Typeflag: tar.TypeDir, Name: dir, Mode: 0o755}}
			}
		}
	}
}

// build builds a Go program.
func (r *Release) build(ctx context.Context, pkg, out, system, architecture string) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false",
		"-ldflags=-s -w -X "+module+"/pkg/process/version.version="+r.Version, "-o", out, pkg)
	cmd.Dir, cmd.Env = r.Source, append(os.Environ(), "CGO_ENABLED=0", "GOOS="+system, "GOARCH="+architecture, "GOFLAGS=", "GOWORK=off")
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s for %s/%s: %w\n%s", pkg, system, architecture, err, text)
	}
	return nil
}

// describe returns the list of the image's programs, as "weft-ovn programs" writes it in the image. Programs for another architecture than
// this machine's do not run here: their versions are taken from this machine's architecture, whose packages must be of the same source.
func (r *Release) describe(ctx context.Context, architecture string, debian, weft Tree, work string, said *Said) ([]byte, error) {
	root := filepath.Join(work, "root")
	for _, tree := range []Tree{debian, weft} {
		if err := tree.extract(root); err != nil {
			return nil, err
		}
	}
	out := filepath.Join(work, "programs.json")
	if architecture == runtime.GOARCH {
		null := filepath.Join(root, "dev", "null") // a runtime would make it
		if err := errors.Join(os.MkdirAll(filepath.Dir(null), 0o755), os.WriteFile(null, nil, 0o666)); err != nil {
			return nil, err
		}
		cmd := exec.CommandContext(ctx, "/usr/bin/weft-ovn", "programs", "--out=/programs.json")
		cmd.Dir, cmd.Env = "/", []string{"PATH=/usr/sbin:/usr/bin"}
		cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: root}
		if text, err := cmd.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("run the image's programs in %s (as root): %w\n%s", root, err, text)
		}
		said.file, said.packages = filepath.Join(root, "programs.json"), sourceVersions(debian)
		return os.ReadFile(said.file)
	}
	if said.file == "" {
		return nil, fmt.Errorf("programs for %s do not run on this machine: make the image for %s, too, before it", architecture, runtime.GOARCH)
	}
	for name, version := range sourceVersions(debian) {
		if have := cmp.Or(said.packages[name], version); have != version {
			return nil, fmt.Errorf("package %s is of version %s for %s, and %s for %s: the mirror is being updated", name, version, architecture,
				have, runtime.GOARCH)
		}
	}
	native := filepath.Join(work, "weft-ovn")
	if err := r.build(ctx, module+"/cmd/weft-ovn", native, "linux", runtime.GOARCH); err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, native, "programs", "--out="+out, "--root="+root, "--versions="+said.file)
	if text, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%s: %w\n%s", cmd, err, text)
	}
	return os.ReadFile(out)
}

// sourceVersions returns the versions of the packages with the programs, without the number of a rebuild ("3.5.0-1+b1").
func sourceVersions(t Tree) map[string]string {
	found := map[string]string{}
	for _, name := range []string{"openvswitch-switch", "openvswitch-common", "ovn-central", "ovn-host", "strongswan-charon"} {
		for line := range strings.Lines(string(t["var/lib/dpkg/status.d/"+name].Body)) {
			if version, ok := strings.CutPrefix(line, "Version: "); ok {
				found[name], _, _ = strings.Cut(strings.TrimSpace(version), "+b")
			}
		}
	}
	return found
}

// extract writes the tree below a folder.
func (t Tree) extract(root string) error {
	reader, writer, err := os.Pipe()
	if err != nil {
		return err
	}
	defer reader.Close()
	if err := os.MkdirAll(root, 0o755); err != nil {
		return err
	}
	cmd := exec.Command("tar", "-x", "--no-same-owner", "-C", root)
	cmd.Stdin = reader
	var text strings.Builder
	cmd.Stderr = &text
	if err := cmd.Start(); err != nil {
		return err
	}
	reader.Close()
	failed := t.write(writer, time0)
	writer.Close()
	if err := cmd.Wait(); err != nil {
		return fmt.Errorf("extract below %s: %w: %s", root, err, text.String())
	}
	return failed
}
