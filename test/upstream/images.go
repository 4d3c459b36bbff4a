package upstream

import (
	"context"
	"path/filepath"
	"slices"

	"github.com/weft-network/weft/test/lab"
	"github.com/weft-network/weft/test/lab/image"
	"github.com/weft-network/weft/test/lab/tools"
)

// registry is the registry in the images' names. No image can be pulled from it.
const registry = "registry.k8s.io/e2e-test-images/"

// importImages imports the images of the tests' pods on the nodes. All contain agnhost, Kubernetes' program for
// tests, and a shell with Debian's tools.
func importImages(ctx context.Context, cluster *lab.Cluster) error {
	files, err := image.Tree(cluster.Cache.Shell())
	if err != nil {
		return err
	}
	certificates, err := porterFiles(ctx)
	if err != nil {
		return err
	}
	files = append(append(files, certificates...), image.File{Path: "/agnhost", Source: cluster.Cache.Bin("agnhost")},
		image.File{Path: "/agnhost-2", Link: "agnhost"},
		image.File{Path: "/coredns", Source: cluster.Cache.Bin("coredns")}) // agnhost's image contains CoreDNS too
	withIssue := append(slices.Clip(files), image.File{Path: "/regression-issue-74839",
		Source: cluster.Cache.Bin("regression-issue-74839")})
	for _, i := range []image.Image{
		{Ref: registry + "agnhost:2.63.0", Aliases: []string{registry + "agnhost:2.45", registry +
			"glibc-dns-testing:2.0.0", registry + "busybox:1.37.0-1"}, Entrypoint: []string{"/agnhost"},
			Cmd: []string{"pause"}, Files: files},
		// the tests only need it to run and answer
		{Ref: registry + "nginx:1.15-4", Entrypoint: []string{"/agnhost", "netexec", "--http-port=80"}, Files: files},
		{Ref: registry + "regression-issue-74839:1.4", Entrypoint: []string{"/regression-issue-74839"}, Files: withIssue},
	} {
		if err := cluster.Import(ctx, i); err != nil {
			return err
		}
	}
	return nil
}

// porterFiles are the TLS files of agnhost's porter, which are next to its source.
func porterFiles(ctx context.Context) ([]image.File, error) {
	module, err := tools.ModuleFolder(ctx, "upstream", "go.mod", "k8s.io/kubernetes")
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(module, "test", "images", "agnhost", "porter")
	return []image.File{{Path: "/localhost.crt", Source: filepath.Join(dir, "localhost.crt")},
		{Path: "/localhost.key", Source: filepath.Join(dir, "localhost.key")}}, nil
}
