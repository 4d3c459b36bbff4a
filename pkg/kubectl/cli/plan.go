package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"

	"github.com/weft-network/weft/pkg/manifest"
	"github.com/weft-network/weft/pkg/process/admin"
)

// plan holds the flags of the command plan.
type plan struct {
	cluster *cluster
	files   []string
	remove  bool
	node    string
	format  format
}

func newPlan(target *cluster) *cobra.Command {
	p := &plan{cluster: target}
	c := &cobra.Command{
		Use:   "plan -f FILE",
		Short: "Show the rows that applying manifests would add, change or delete",
		Long: `Show the rows of the OVN northbound database that applying manifests would add, change or delete, by
owner. Nothing is written.

First the API server computes what it would store (a server-side dry run, with your permissions).
Then the leading operator runs its reconcilers on a copy of its state. If several pods would get
addresses, they may in fact get them in another order.

Exit codes are those of "kubectl diff": 0 nothing would change, 1 something would change, more than
1 an error.`,
		Example: `  kubectl weft plan -f app.yaml --node worker-1
  kubectl weft plan -f app.yaml --delete
  kubectl get clusternetwork default -o yaml | sed ... | kubectl weft plan -f - -o json`,
		Args: noArguments,
		RunE: func(c *cobra.Command, _ []string) error { return p.run(c) },
	}
	c.Flags().StringSliceVarP(&p.files, "filename", "f", nil, `files or folders with manifests; "-" is standard input`)
	c.Flags().BoolVar(&p.remove, "delete", false, "plan the deletion of the objects instead")
	c.Flags().StringVar(&p.node, "node", "", "plan as if pods without a node were scheduled to this node")
	completeFlag(c, "node", target.completing(unlimited, completion.nodes))
	p.format.bind(c)
	_ = c.MarkFlagRequired("filename") // fails only if the flag does not exist
	return c
}

func (p *plan) run(c *cobra.Command) error {
	if err := p.format.check(); err != nil {
		return err
	}
	if p.remove && p.node != "" {
		return errors.New("--node applies to pods to be created: it cannot be used with --delete")
	}
	documents, err := readFiles(p.files, c.InOrStdin())
	if err != nil {
		return err
	}
	ctx := c.Context()
	operator, err := p.cluster.findOperator(ctx)
	if err != nil {
		return err
	}
	if err := p.checkNode(ctx, operator.api, documents); err != nil {
		return err
	}
	stored, notes, err := p.dryRun(ctx, operator, documents)
	if err != nil {
		return err
	}
	args := []string{"plan"}
	if p.remove {
		args = append(args, "--delete")
	}
	var answer admin.Changes
	if err := operator.query(ctx, stored, &answer, args...); err != nil {
		return err
	}
	answer.Notes = append(notes, answer.Notes...)
	if err := p.format.write(c.OutOrStdout(), answer, func() string { return planText(answer) }); err != nil {
		return err
	}
	return different(len(answer.Changes))
}

// dryRun returns a stream of the objects as the API server would store them.
func (p *plan) dryRun(ctx context.Context, o *operator, documents []manifest.Document) (*bytes.Buffer, []string, error) {
	namespace, err := p.cluster.contextNamespace()
	if err != nil {
		return nil, nil, err
	}
	server, err := newDryRun(o.config, namespace, documents)
	if err != nil {
		return nil, nil, err
	}
	try := server.apply
	if p.remove {
		try = server.remove
	}
	stream := &bytes.Buffer{}
	encoder := json.NewEncoder(stream)
	for _, document := range documents {
		if err := schedule(document.Object, p.node); err != nil {
			return nil, nil, fmt.Errorf("%s: %w", document, err)
		}
		object, err := try(ctx, document)
		if err != nil {
			return nil, nil, err
		}
		if err := encoder.Encode(object); err != nil {
			return nil, nil, err
		}
	}
	if stream.Len() > admin.MaxManifests {
		return nil, nil, fmt.Errorf("the manifests have %d bytes, more than %d", stream.Len(), admin.MaxManifests)
	}
	return stream, server.notes, nil
}

// checkNode returns an error for a node that neither exists nor is created by the manifests. If the user may not read
// nodes, the operator's notes must suffice.
func (p *plan) checkNode(ctx context.Context, api kubernetes.Interface, documents []manifest.Document) error {
	made := slices.ContainsFunc(documents, func(d manifest.Document) bool {
		return d.Object.GetAPIVersion() == "v1" && d.Object.GetKind() == "Node" && d.Object.GetName() == p.node
	})
	if p.node == "" || made {
		return nil
	}
	_, err := api.CoreV1().Nodes().Get(ctx, p.node, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("--node %s: the cluster has no such node", p.node)
	}
	if apierrors.IsForbidden(err) {
		return nil
	}
	return err
}

// schedule sets the node of a pod without one.
func schedule(object *unstructured.Unstructured, node string) error {
	if node == "" || object.GetKind() != "Pod" || object.GetAPIVersion() != "v1" {
		return nil
	}
	if has, _, err := unstructured.NestedString(object.Object, "spec", "nodeName"); err != nil || has != "" {
		return err
	}
	return unstructured.SetNestedField(object.Object, node, "spec", "nodeName")
}
