package program

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"

	"github.com/weft-network/weft/pkg/health"
)

// apiServerTimeout bounds the check of the API server. Without it, kubelet's probe would end the process later,
// without an error message.
const apiServerTimeout = 15 * time.Second

// checkAPIServer returns an error if no API server responds at config's address. Any response is sufficient. The
// error explains how to configure another address. injected is the address of the Service kubernetes as kubelet
// injects it, in the form of KUBERNETES_PORT. Without kube-proxy nothing serves that address before Weft does.
func checkAPIServer(ctx context.Context, config *rest.Config, namespace, injected string) error {
	own := rest.CopyConfig(config)
	own.Timeout = apiServerTimeout
	client, err := discovery.NewDiscoveryClientForConfig(own)
	if err != nil {
		return err
	}
	failed, unreachable := errors.AsType[*url.Error](client.RESTClient().Get().AbsPath("/version").Do(ctx).Error())
	if !unreachable || ctx.Err() != nil {
		return nil
	}
	server, err := url.Parse(config.Host)
	if err != nil {
		return fmt.Errorf("address of the API server: %w", err)
	}
	const name = health.APIServerConfigMap
	if service, err := url.Parse(injected); err == nil && service.Host == server.Host {
		return fmt.Errorf("cannot reach the API server at %s, the cluster IP of Service default/kubernetes, "+
			"which nothing serves unless kube-proxy or Weft runs: %w; name an API server's own address in "+
			"the ConfigMap %s/%s, keys host and port: "+
			"kubectl -n %[3]s create configmap %[4]s --from-literal=host=ADDRESS --from-literal=port=6443",
			server.Host, failed.Err, namespace, name)
	}
	return fmt.Errorf(
		"cannot reach the API server at %s: %w; if the ConfigMap %s/%s has a wrong address, correct its keys host and port: "+
			"kubectl -n %[3]s edit configmap %[4]s",
		server.Host, failed.Err, namespace, name)
}
