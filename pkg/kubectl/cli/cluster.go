package cli

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

// defaultNamespace is the operator's namespace in config/default.
const defaultNamespace = "weft-system"

// cluster holds the flags that select the cluster and the operator's namespace.
type cluster struct {
	rules     clientcmd.ClientConfigLoadingRules
	overrides clientcmd.ConfigOverrides
	// namespace is the operator's namespace. Objects without a namespace use the namespace of the kubeconfig's
	// context, as with kubectl.
	namespace string
	// zone is the zone whose operator and databases a command uses; empty is the default zone.
	zone     string
	warnings rest.WarningHandler
	command  context.Context // ends requests when the command ends
}

// newCluster returns the cluster of a command. The API server's warnings go to errs, each once, as with kubectl.
func newCluster(command context.Context, errs io.Writer) *cluster {
	return &cluster{warnings: rest.NewWarningWriter(errs, rest.WarningWriterOptions{Deduplicate: true}), command: command}
}

// bind adds the flags to a command.
func (c *cluster) bind(flags *pflag.FlagSet) {
	c.rules = *clientcmd.NewDefaultClientConfigLoadingRules()
	flags.StringVar(&c.rules.ExplicitPath, clientcmd.RecommendedConfigPathFlag, "", "path of the kubeconfig file")
	flags.StringVarP(&c.namespace, "namespace", "n", defaultNamespace, "the operator's namespace")
	flags.StringVar(&c.zone, "zone", "", "zone of the operator and the databases; empty: the default zone")
	names := clientcmd.RecommendedConfigOverrideFlags("")
	names.ContextOverrideFlags.Namespace = clientcmd.FlagInfo{} // here -n selects the operator's namespace
	clientcmd.BindOverrideFlags(&c.overrides, flags, names)
}

// ofZone returns the name that a workload, a lease or a component has in the zone.
func (c *cluster) ofZone(name string) string {
	if c.zone == "" {
		return name
	}
	return name + "-" + c.zone
}

// in returns the cluster with another zone, unless the user has named one.
func (c *cluster) in(zone networkv1alpha1.ZoneName) *cluster {
	if c.zone != "" {
		return c
	}
	other := *c
	other.zone = string(zone)
	return &other
}

func (c *cluster) loader() clientcmd.ClientConfig {
	return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(&c.rules, &c.overrides)
}

// restConfig reads the kubeconfig. The error says what is missing.
func (c *cluster) restConfig() (*rest.Config, error) {
	config, err := c.loader().ClientConfig()
	if clientcmd.IsEmptyConfig(err) {
		return nil, fmt.Errorf("no kubeconfig names a cluster; files read: %s", strings.Join(c.rules.GetLoadingPrecedence(), ", "))
	}
	if err != nil {
		return nil, err
	}
	if config.Timeout < 0 {
		return nil, fmt.Errorf("--request-timeout %s: want 0 or more", config.Timeout)
	}
	config.WarningHandler = c.warnings
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return impatient{next, c.command} })
	return config, nil
}

// contextNamespace returns the namespace of objects that do not name one.
func (c *cluster) contextNamespace() (string, error) {
	namespace, _, err := c.loader().Namespace()
	return namespace, err
}
