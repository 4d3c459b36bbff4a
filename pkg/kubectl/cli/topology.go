package cli

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/trace"
	"github.com/weft-network/weft/pkg/trace/sketch"
)

const topologyLong = `Draw the logical network, or the part around a pod, a service or a node.

The picture is made from the API server's objects: each node's switch with its host and pods, the
cluster router, the gateway routers, and services with the endpoints that take connections. OVN's
databases are not read. kubectl weft drift compares them with the objects.

-o html writes one page with the picture, a search, and keys that move and enlarge it. The page
refers to nothing outside and can be kept or sent.`

func newTopology(target *cluster) *cobra.Command {
	output := string(formatText)
	c := &cobra.Command{
		Use:   "topology [OBJECT]",
		Short: "Draw the logical network, or the part around an object",
		Long:  topologyLong,
		Example: `  kubectl weft topology
  kubectl weft topology demo/web-0
  kubectl weft topology svc/demo/web -o mermaid
  kubectl weft topology node/worker-1 -o svg > worker-1.svg
  kubectl weft topology -o html > network.html
  kubectl weft topology -o dot | dot -Tpdf > network.pdf`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: target.completing(1, completion.objects),
		RunE: func(c *cobra.Command, args []string) error {
			write, ok := drawings[output]
			if !ok {
				return fmt.Errorf("invalid output %q: want text, json, dot, mermaid, svg or html", output)
			}
			g, err := readTopology(c.Context(), target, args)
			if err != nil {
				return err
			}
			return write(c.OutOrStdout(), g)
		},
	}
	c.Flags().StringVarP(&output, "output", "o", output, "text, json, dot, mermaid, svg or html")
	completeWords(c, "output", "text", "json", "dot", "mermaid", "svg", "html")
	return c
}

// drawings are the forms of the picture.
var drawings = map[string]func(io.Writer, sketch.Graph) error{
	"text":    drawing(sketch.Graph.Text),
	"dot":     drawing(sketch.Graph.DOT),
	"mermaid": drawing(sketch.Graph.Mermaid),
	"svg":     drawing(sketch.Graph.SVG),
	"html":    drawing(sketch.Graph.HTML),
	"json":    func(out io.Writer, g sketch.Graph) error { return formatJSON.write(out, g, nil) },
}

func drawing(render func(sketch.Graph) string) func(io.Writer, sketch.Graph) error {
	return func(out io.Writer, g sketch.Graph) error {
		_, err := io.WriteString(out, render(g))
		return err
	}
}

// readTopology reads the cluster, and reduces it to the part around the object of the first argument.
func readTopology(ctx context.Context, target *cluster, args []string) (sketch.Graph, error) {
	e, err := readEnds(ctx, target)
	if err != nil {
		return sketch.Graph{}, err
	}
	in, err := e.everything(ctx)
	if err != nil || len(args) == 0 {
		return sketch.Draw(in), err
	}
	return e.around(ctx, in, args[0])
}

// around draws the part around an object.
func (e *ends) around(ctx context.Context, in sketch.Input, object string) (sketch.Graph, error) {
	found, err := e.read(ctx, object)
	switch {
	case err != nil:
		return sketch.Graph{}, err
	case found.Kind == trace.Outside:
		return sketch.Graph{}, fmt.Errorf("%s is outside the cluster: want a pod, a service or a node", object)
	}
	return sketch.Draw(in.Around(found)), nil
}

// everything reads all pods that run, and all services that Weft balances.
func (e *ends) everything(ctx context.Context) (sketch.Input, error) {
	in := sketch.Input{Nodes: e.world}
	var pods corev1.PodList
	var services corev1.ServiceList
	var endpoints discoveryv1.EndpointSliceList
	if err := errors.Join(e.api.List(ctx, &pods), e.api.List(ctx, &services), e.api.List(ctx, &endpoints)); err != nil {
		return in, err
	}
	for i := range pods.Items {
		if p := &pods.Items[i]; p.Status.Phase != corev1.PodSucceeded && p.Status.Phase != corev1.PodFailed {
			in.Pods = append(in.Pods, trace.PodEnd(p))
		}
	}
	of := map[string][]discoveryv1.EndpointSlice{}
	for _, s := range endpoints.Items {
		key := s.Namespace + "/" + s.Labels[discoveryv1.LabelServiceName]
		of[key] = append(of[key], s)
	}
	for i := range services.Items {
		s := &services.Items[i]
		if !facts.Balanced(s) {
			continue
		}
		end, err := trace.ServiceEnd(s, of[s.Namespace+"/"+s.Name], e.world)
		if err != nil {
			return in, err
		}
		in.Services = append(in.Services, end)
	}
	return in, nil
}
