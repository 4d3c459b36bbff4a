package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/weft-network/weft/pkg/admin"
	"github.com/weft-network/weft/pkg/manifest"
)

// plan is the command "plan".
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
		Long: `Show the rows of the OVN northbound database that applying manifests would add, change or delete, by owner. Nothing is written.

The API server is asked first what it would store (a server-side dry run, with your permissions); then the operator that leads
runs its own reconcilers on a copy of what it knows. Of pods that get addresses at once, the order may be another in the end.

Exit codes are those of "kubectl diff": 0 nothing would change, 1 something would, more than 1 an error.`,
		Example: `  kubectl weft plan -f app.yaml --node worker-1
  kubectl weft plan -f app.yaml --delete
  kubectl get clusternetwork default -o yaml | sed ... | kubectl weft plan -f - -o json`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return p.run(c) },
	}
	c.Flags().StringSliceVarP(&p.files, "filename", "f", nil, `files or folders with manifests; "-" is the standard input`)
	c.Flags().BoolVar(&p.remove, "delete", false, "plan the deletion of the objects instead")
	c.Flags().StringVar(&p.node, "node", "", "plan as if pods that name no node were scheduled to this one")
	p.format.bind(c)
	_ = c.MarkFlagRequired("filename") // the flag is there
	return c
}

func (p *plan) run(c *cobra.Command) error {
	if err := p.format.check(); err != nil {
		return err
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
	stored, notes, err := p.dryRun(ctx, operator, documents)
	if err != nil {
		return err
	}
	question := []string{"plan"}
	if p.remove {
		question = append(question, "--delete")
	}
	var answer admin.Changes
	if err := operator.answer(ctx, stored, &answer, question...); err != nil {
		return err
	}
	answer.Notes = append(notes, answer.Notes...)
	if err := p.format.write(c.OutOrStdout(), answer, func() string { return planText(answer) }); err != nil {
		return err
	}
	return different(len(answer.Changes))
}

// dryRun returns the objects as the API server would store them, as a stream.
func (p *plan) dryRun(ctx context.Context, o *operator, documents []manifest.Document) (*bytes.Buffer, []string, error) {
	namespace, err := p.cluster.contextNamespace()
	if err != nil {
		return nil, nil, err
	}
	server, err := newDryRun(o.config, namespace, documents)
	if err != nil {
		return nil, nil, err
	}
	ask := server.apply
	if p.remove {
		ask = server.remove
	}
	stream := &bytes.Buffer{}
	encoder := json.NewEncoder(stream)
	for _, document := range documents {
		if err := schedule(document.Object, p.node); err != nil {
			return nil, nil, fmt.Errorf("%s: %w", document, err)
		}
		object, err := ask(ctx, document)
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

// schedule gives a pod a node if it names none.
func schedule(object *unstructured.Unstructured, node string) error {
	if node == "" || object.GetKind() != "Pod" || object.GetAPIVersion() != "v1" {
		return nil
	}
	if has, _, err := unstructured.NestedString(object.Object, "spec", "nodeName"); err != nil || has != "" {
		return err
	}
	return unstructured.SetNestedField(object.Object, node, "spec", "nodeName")
}
