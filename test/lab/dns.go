package lab

import (
	"context"
	"path/filepath"

	"github.com/weft-network/weft/test/lab/tools"
)

// DNSv4 and DNSv6 are the addresses of the service kube-dns. kubelet configures pods with the first.
const (
	DNSv4 = "10.96.0.10"
	DNSv6 = "fd00:10:96::a"
)

// applyDNS runs CoreDNS as clusters do. It becomes ready once its pods have reached the API server through the
// service kubernetes.
func (u *bringUp) applyDNS(ctx context.Context) error {
	source, err := tools.SourceRoot()
	if err != nil {
		return err
	}
	_, err = u.Kubectl(ctx, "apply", "-f", filepath.Join(source, "test", "lab", "manifests", "coredns.yaml"))
	return err
}
