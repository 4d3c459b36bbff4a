package cli

import (
	"context"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

const (
	// completionPatience limits how long a shell waits for names.
	completionPatience = 5 * time.Second
	// maxNames limits the names of one list.
	maxNames = 1000
	// unlimited is the number of arguments of flags, and of commands that take any number.
	unlimited = math.MaxInt
)

// The kinds whose names shells complete.
var (
	namesOfPods       = corev1.SchemeGroupVersion.WithKind("Pod")
	namesOfServices   = corev1.SchemeGroupVersion.WithKind("Service")
	namesOfNodes      = corev1.SchemeGroupVersion.WithKind("Node")
	namesOfNamespaces = corev1.SchemeGroupVersion.WithKind("Namespace")
	namesOfNetworks   = networkv1alpha1.GroupVersion.WithKind("Network")
)

// completer is a function that returns the words of an argument for a shell.
type completer = cobra.CompletionFunc

// completion reads names for a shell.
type completion struct {
	ctx       context.Context
	api       client.Reader
	namespace string // of names without one
}

// completing returns a completer that reads the cluster. most is the number of arguments that have names. In place of
// names that cannot be read, the shell shows the error if it can.
func (c *cluster) completing(most int, words func(completion, string) ([]string, error)) completer {
	return func(_ *cobra.Command, args []string, start string) ([]string, cobra.ShellCompDirective) {
		const directive = cobra.ShellCompDirectiveNoFileComp
		if len(args) >= most {
			return nil, directive
		}
		ctx, cancel := context.WithTimeout(c.command, completionPatience)
		defer cancel()
		api, err := c.watchClient()
		if err != nil {
			return cobra.AppendActiveHelp(nil, err.Error()), directive
		}
		namespace, err := c.contextNamespace()
		if err != nil {
			return cobra.AppendActiveHelp(nil, err.Error()), directive
		}
		found, err := words(completion{ctx, api, namespace}, start)
		if err != nil {
			return cobra.AppendActiveHelp(nil, err.Error()), directive
		}
		found = slices.DeleteFunc(found, func(word string) bool { return !strings.HasPrefix(word, start) })
		if len(found) > 0 && !slices.ContainsFunc(found, func(word string) bool { return !strings.HasSuffix(word, "/") }) {
			return found, directive | cobra.ShellCompDirectiveNoSpace // a name follows
		}
		return found, directive
	}
}

// list returns the names of a kind, in a namespace or of the cluster.
func (c completion) list(kind schema.GroupVersionKind, namespace string) (found []string, err error) {
	all := &metav1.PartialObjectMetadataList{}
	all.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	err = c.api.List(c.ctx, all, client.InNamespace(namespace), client.Limit(maxNames))
	for _, o := range all.Items {
		found = append(found, o.Name)
	}
	return found, err
}

// named returns the names of a namespaced kind, each with a prefix. A start with a slash names the namespace. Otherwise
// the result is the names in the context's namespace, and all namespaces.
func (c completion) named(kind schema.GroupVersionKind, prefix, start string) ([]string, error) {
	if namespace, _, ok := strings.Cut(strings.TrimPrefix(start, prefix), "/"); ok {
		found, err := c.list(kind, namespace)
		return allWith(prefix+namespace+"/", found), err
	}
	found, err := c.list(kind, c.namespace)
	if err != nil {
		return nil, err
	}
	namespaces, err := c.list(namesOfNamespaces, "")
	if err != nil { // names of the own namespace need no right to list namespaces
		namespaces = nil
	}
	for _, name := range namespaces {
		found = append(found, name+"/")
	}
	return allWith(prefix, found), nil
}

func allWith(prefix string, words []string) (all []string) {
	for _, word := range words {
		all = append(all, prefix+word)
	}
	return all
}

// pods completes [NAMESPACE/]POD.
func (c completion) pods(start string) ([]string, error) { return c.named(namesOfPods, "", start) }

// objects completes pods, services and nodes as commands name them.
func (c completion) objects(start string) ([]string, error) {
	kind, _, _ := strings.Cut(start, "/")
	switch kind += "/"; {
	case !strings.Contains(start, "/"):
		found, err := c.pods(start)
		return append(found, "pod/", "svc/", "node/"), err
	case kind == "svc/":
		return c.named(namesOfServices, kind, start)
	case kind == "pod/":
		return c.named(namesOfPods, kind, start)
	case kind == "node/":
		found, err := c.nodes(start)
		return allWith(kind, found), err
	}
	return c.pods(start)
}

// ends completes the ends of a packet: objects and the outside.
func (c completion) ends(start string) ([]string, error) {
	found, err := c.objects(start)
	return append(found, "outside"), err
}

// nodes completes the name of a node.
func (c completion) nodes(string) ([]string, error) { return c.list(namesOfNodes, "") }

// networks completes the name of a Network.
func (c completion) networks(string) ([]string, error) { return c.list(namesOfNetworks, "") }

// namespaces completes the name of a namespace.
func (c completion) namespaces(string) ([]string, error) { return c.list(namesOfNamespaces, "") }

// completeFlag sets the completer of a flag. Flags have no limit of arguments.
func completeFlag(c *cobra.Command, flag string, words completer) {
	_ = c.RegisterFlagCompletionFunc(flag, words) // fails only if the flag does not exist
}

// completeWords sets the words of a flag.
func completeWords(c *cobra.Command, flag string, words ...string) {
	completeFlag(c, flag, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
}
