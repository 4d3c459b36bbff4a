package lab

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/sync/errgroup"

	said "github.com/weft-network/weft/pkg/install/programs"
	"github.com/weft-network/weft/test/lab/image"
	"github.com/weft-network/weft/test/lab/tools"
)

// Images of a lab. The names are complete, as kubelet requires. No registry has these images.
const (
	PauseRef   = "registry.k8s.io/pause:3.10.2"
	ProbeRef   = "docker.io/weft-lab/probe:dev"
	ProductRef = "docker.io/library/weft:dev"
	DNSRef     = "docker.io/weft-lab/coredns:dev"
)

// productRepository is the repository of the product's images; the tag is the version.
const productRepository = "docker.io/library/weft:"

const module = "github.com/weft-network/weft"

// program is a Go program in an image: a package of this module, or a tool of the cache.
type program struct{ pkg, path, tool string }

// busyBoxApplets are the programs for init containers and interactive shells.
var busyBoxApplets = []string{"sh", "cat", "cp", "env", "grep", "ip", "ln", "ls", "mkdir", "mv", "nc", "ping",
	"ping6", "ps", "rm", "sleep", "wget"}

// labImages returns the programs of the lab's own images, by reference.
func labImages() map[string][]program {
	return map[string][]program{
		PauseRef: {{pkg: module + "/test/lab/pause", path: "/pause"}},
		ProbeRef: {{pkg: module + "/test/lab/probe", path: "/usr/bin/probe"}},
	}
}

func dnsPrograms() []program { return []program{{tool: "coredns", path: "/coredns"}} }

// productPrograms returns all programs of the product in this source tree.
func productPrograms() ([]program, error) {
	source, err := tools.SourceRoot()
	if err != nil {
		return nil, err
	}
	all := []program{
		{pkg: module, path: "/usr/bin/weft"},
		{pkg: module + "/cmd/weft-agent", path: "/usr/bin/weft-agent"},
		{pkg: module + "/cmd/weft-ovn", path: "/usr/bin/weft-ovn"},
		{pkg: module + "/cmd/weft-capture", path: "/usr/bin/weft-capture"},
		{pkg: module + "/cmd/weft-cni", path: "/opt/weft/cni/weft-cni"},
		{pkg: "github.com/containernetworking/plugins/plugins/main/loopback", path: "/opt/weft/cni/loopback"},
	}
	var have []program
	for _, p := range all {
		inTree, ours := strings.CutPrefix(p.pkg, module)
		if ours {
			if _, err := os.Stat(filepath.Join(source, inTree, "main.go")); err != nil {
				continue
			}
		}
		have = append(have, p)
	}
	return have, nil
}

// buildImage compiles an image's programs and writes its archive. If change is not nil, it changes what the
// product's image reports of OVN and Open vSwitch.
func (c *Cluster) buildImage(ctx context.Context, ref string, programs []program, change func(said.Set)) (archive string, err error) {
	dir := filepath.Join(c.Dir, "images", strings.NewReplacer("/", "_", ":", "_").Replace(ref))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	i := image.Image{Ref: ref, Entrypoint: []string{programs[0].path}, Files: []image.File{
		{Path: "/var/run", Link: "../run"}, // containerd names network namespaces under /var/run
	}}
	for _, p := range programs {
		binary, err := c.binary(ctx, p, dir, versionOf(ref))
		if err != nil {
			return "", err
		}
		i.Files = append(i.Files, image.File{Path: p.path, Source: binary})
	}
	if strings.HasPrefix(ref, productRepository) {
		linked, err := c.linkedPrograms(ctx)
		if err != nil {
			return "", err
		}
		file, err := c.saidPrograms(ctx, dir, change)
		if err != nil {
			return "", err
		}
		i.Files = append(append(i.Files, linked...), file)
	}
	if ref != PauseRef {
		i.Files = append(i.Files, image.File{Path: "/bin/busybox", Source: c.Cache.BusyBox()})
		for _, applet := range busyBoxApplets {
			i.Files = append(i.Files, image.File{Path: "/bin/" + applet, Link: "busybox"})
		}
	}
	return dir + ".tar", writeImage(i, dir+".tar")
}

// binary returns the path of a program on this machine. A program of this module is built into dir.
func (c *Cluster) binary(ctx context.Context, p program, dir, version string) (string, error) {
	if p.tool != "" {
		return c.Cache.Bin(p.tool), nil
	}
	binary := filepath.Join(dir, filepath.Base(p.path))
	return binary, goBuildVersion(ctx, p.pkg, binary, version)
}

// versionOf returns the version that an image's programs report; empty for the source tree's own.
func versionOf(ref string) string {
	if version, ok := strings.CutPrefix(ref, productRepository); ok && ref != ProductRef {
		return version
	}
	return ""
}

// Import builds an image and imports it on every node.
func (c *Cluster) Import(ctx context.Context, i image.Image) error {
	nodes, err := c.Nodes()
	if err != nil {
		return err
	}
	archive := filepath.Join(c.Dir, "images", strings.NewReplacer("/", "_", ":", "_").Replace(i.Ref)+".tar")
	if err := writeImage(i, archive); err != nil {
		return err
	}
	return c.importImage(ctx, nodes, archive)
}

func writeImage(i image.Image, path string) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	if err := i.Write(file); err != nil {
		file.Close()
		return err
	}
	return file.Close()
}

func goBuild(ctx context.Context, pkg, out string) error { return goBuildVersion(ctx, pkg, out, "") }

// goBuildVersion builds a program that reports the given version; if empty, the source tree's own.
func goBuildVersion(ctx context.Context, pkg, out, version string) error {
	source, err := tools.SourceRoot()
	if err != nil {
		return err
	}
	linking := "-s -w"
	if version != "" {
		linking += " -X " + module + "/pkg/process/version.version=" + version
	}
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags="+linking, "-o", out, pkg)
	cmd.Dir, cmd.Env = source, append(os.Environ(), "CGO_ENABLED=0")
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", pkg, err, text)
	}
	return nil
}

// importImage imports an archive into every node's containerd.
func (c *Cluster) importImage(ctx context.Context, nodes []Machine, archive string) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, n := range nodes {
		group.Go(func() error {
			_, err := c.Exec(ctx, n.Name, "ctr", "images", "import", archive)
			return err
		})
	}
	return group.Wait()
}
