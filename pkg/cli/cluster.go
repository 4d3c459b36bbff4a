package cli

import (
	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// defaultNamespace is where the operator is; config/default makes it.
const defaultNamespace = "weft-system"

// cluster is which cluster a command speaks to: the flags of kubectl, and the operator's namespace.
type cluster struct {
	rules     clientcmd.ClientConfigLoadingRules
	overrides clientcmd.ConfigOverrides
	// namespace is the operator's. Objects without a namespace are in the one of the kubeconfig's context, as with kubectl.
	namespace string
}

// bind adds the flags to a command's.
func (c *cluster) bind(flags *pflag.FlagSet) {
	c.rules = *clientcmd.NewDefaultClientConfigLoadingRules()
	flags.StringVar(&c.rules.ExplicitPath, clientcmd.RecommendedConfigPathFlag, "", "path of the kubeconfig file")
	flags.StringVarP(&c.namespace, "namespace", "n", defaultNamespace, "the operator's namespace")
	names := clientcmd.RecommendedConfigOverrideFlags("")
	names.ContextOverrideFlags.Namespace = clientcmd.FlagInfo{} // it is the operator's here
	clientcmd.BindOverrideFlags(&c.overrides, flags, names)
}

func (c *cluster) loader() clientcmd.ClientConfig {
	return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(&c.rules, &c.overrides)
}

// restConfig reads the kubeconfig; the error names what is missing.
func (c *cluster) restConfig() (*rest.Config, error) { return c.loader().ClientConfig() }

// contextNamespace is where objects without a namespace are.
func (c *cluster) contextNamespace() (string, error) {
	namespace, _, err := c.loader().Namespace()
	return namespace, err
}
