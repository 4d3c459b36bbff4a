package upstream

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/weft-network/weft/test/lab"
	"github.com/weft-network/weft/test/lab/image"
	"github.com/weft-network/weft/test/lab/tools"
)

// registry is where the images are by name; none can be pulled.
const registry = "registry.k8s.io/e2e-test-images/"

// importImages gives nodes the images of the tests' pods: all are agnhost, Kubernetes' own program for this, beside a shell with Debian's tools.
func importImages(ctx context.Context, cluster *lab.Cluster) error {
	files, err := image.Tree(cluster.Cache.Shell())
	if err != nil {
		return err
	}
	certificates, err := porterFiles(ctx)
	if err != nil {
		return err
	}
	files = append(append(files, certificates...), image.File{Path: "/agnhost", Source: cluster.Cache.Bin("agnhost")}, image.File{Path: "/agnhost-2", Link: "agnhost"})
	for _, i := range []image.Image{
		{Ref: registry + "agnhost:2.63.0", Aliases: []string{registry + "glibc-dns-testing:2.0.0", registry + "busybox:1.37.0-1"}, Entrypoint: []string{"/agnhost"}, Cmd: []string{"pause"}},
		{Ref: registry + "nginx:1.15-4", Entrypoint: []string{"/agnhost", "netexec", "--http-port=80"}}, // it only has to run, and to answer
	} {
		i.Files = files
		if err := cluster.Import(ctx, i); err != nil {
			return err
		}
	}
	return nil
}

// porterFiles are what agnhost's porter serves TLS with; they lie beside its source.
func porterFiles(ctx context.Context) ([]image.File, error) {
	root, err := tools.SourceRoot()
	if err != nil {
		return nil, err
	}
	list := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "k8s.io/kubernetes")
	list.Dir = filepath.Join(root, "test", "lab", "upstream")
	out, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("find k8s.io/kubernetes: %w", err)
	}
	dir := filepath.Join(strings.TrimSpace(string(out)), "test", "images", "agnhost", "porter")
	return []image.File{{Path: "/localhost.crt", Source: filepath.Join(dir, "localhost.crt")}, {Path: "/localhost.key", Source: filepath.Join(dir, "localhost.key")}}, nil
}
