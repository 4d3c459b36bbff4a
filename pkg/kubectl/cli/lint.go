package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/weft-network/weft/pkg/kubectl/lint"
)

const lintLong = `Find probable mistakes in manifests that the API server accepts:

  policies and services that select no pod, and peers that select nothing
  ports that no container of the selected pods has
  rules without effect, because another rule decides about all of their packets

It checks NetworkPolicies, Services and EgressFirewalls, against the pods and namespaces of the cluster
and of the manifests themselves. Nothing is written. --offline checks against the manifests alone.

Exit codes: 0 nothing was found, 1 something was found, 2 an error.`

// lintAnswer is the answer of the command lint.
type lintAnswer struct {
	Findings []lint.Finding `json:"findings"`
}

func newLint(target *cluster) *cobra.Command {
	var files []string
	var offline bool
	var output format
	c := &cobra.Command{
		Use:   "lint -f FILE",
		Short: "Find policies, services and rules in manifests that have no effect",
		Long:  lintLong,
		Example: `  kubectl weft lint -f policies.yaml
  kubectl weft lint -f app/ -f policies/ --offline
  kustomize build . | kubectl weft lint -f - -o json`,
		Args: noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := output.check(); err != nil {
				return err
			}
			documents, err := readFiles(files, c.InOrStdin())
			if err != nil {
				return err
			}
			namespace, err := target.contextNamespace()
			if err != nil {
				return err
			}
			var against lint.Cluster
			if !offline {
				if against, err = target.linted(c.Context()); err != nil {
					return err
				}
			}
			found, err := lint.Lint(documents, against, namespace)
			if err != nil {
				return err
			}
			a := lintAnswer{append([]lint.Finding{}, found...)}
			if err := output.write(c.OutOrStdout(), a, a.text); err != nil {
				return err
			}
			return different(len(found))
		},
	}
	c.Flags().StringSliceVarP(&files, "filename", "f", nil, `files or folders with manifests; "-" is standard input`)
	c.Flags().BoolVar(&offline, "offline", false, "check against the manifests alone, without the cluster")
	output.bind(c)
	_ = c.MarkFlagRequired("filename") // fails only if the flag does not exist
	return c
}

func (a lintAnswer) text() string {
	if len(a.Findings) == 0 {
		return "nothing was found\n"
	}
	var b strings.Builder
	for _, f := range a.Findings {
		fmt.Fprintln(&b, f)
	}
	return b.String()
}

// linted reads the pods that run, and the namespaces.
func (c *cluster) linted(ctx context.Context) (lint.Cluster, error) {
	against := lint.Cluster{Namespaces: map[string]labels.Set{}}
	api, err := c.watchClient()
	if err != nil {
		return against, err
	}
	var pods corev1.PodList
	var namespaces corev1.NamespaceList
	if err := errors.Join(api.List(ctx, &pods), api.List(ctx, &namespaces)); err != nil {
		return against, err
	}
	for i := range namespaces.Items {
		against.Namespaces[namespaces.Items[i].Name] = namespaces.Items[i].Labels
	}
	for i := range pods.Items {
		p := &pods.Items[i]
		if p.Status.Phase != corev1.PodSucceeded && p.Status.Phase != corev1.PodFailed {
			against.Pods = append(against.Pods, lint.PodOf(p.Namespace, p.Labels, p.Spec))
		}
	}
	return against, nil
}
