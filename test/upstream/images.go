package upstream

import (
	"context"

	"github.com/weft-network/weft/test/lab"
	"github.com/weft-network/weft/test/lab/image"
)

// registry is where the images are by name; none can be pulled.
const registry = "registry.k8s.io/e2e-test-images/"

// importImages gives nodes the images of the tests' pods: all are agnhost, Kubernetes' own program for this, beside a shell with Debian's tools.
func importImages(ctx context.Context, cluster *lab.Cluster) error {
	files, err := image.Tree(cluster.Cache.Shell())
	if err != nil {
		return err
	}
	files = append(files, image.File{Path: "/agnhost", Source: cluster.Cache.Bin("agnhost")}, image.File{Path: "/agnhost-2", Link: "agnhost"})
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
