package demo

import (
	"bytes"
	"context"
	_ "embed"
	"fmt"
	"os"
	"text/template"
	"time"

	"github.com/weft-network/weft/test/lab"
)

// Namespace holds everything that the demo creates in the cluster.
const Namespace = "demo"

// deployment is a Deployment of the demo.
type deployment struct {
	Name     string
	Replicas int
}

// deployments put three pods on each node: enough for pairs on the same node and across nodes.
func deployments(nodes int) []deployment {
	return []deployment{{"web", 2 * nodes}, {"client", nodes}}
}

//go:embed manifest.yaml
var manifestText string

func manifest(nodes int) (string, error) {
	t, err := template.New("manifest.yaml").Parse(manifestText)
	if err != nil {
		return "", err
	}
	var out bytes.Buffer
	err = t.Execute(&out, deployments(nodes))
	return out.String(), err
}

func (d *demo) ensureUp(ctx context.Context) error {
	if _, err := d.Cluster.Machines(); err == nil {
		return d.checkUp(ctx)
	}
	if err := d.Cluster.Cache.Make(ctx, "all", d.Screen); err != nil {
		return err
	}
	return d.Cluster.Up(ctx, lab.UpOptions{Nodes: d.Nodes, Bare: true, Release: os.Getenv(lab.ReleaseVariable)})
}

// checkUp detects a lab whose Up failed half-way, whose machines were killed, or that has no product.
func (d *demo) checkUp(ctx context.Context) error {
	query, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if _, err := d.Cluster.Kubectl(query, "get", "--raw=/readyz"); err != nil {
		return fmt.Errorf(
			"lab %s exists, but its API server is not ready: remove it (make lab-down) and try again: %w",
			d.Cluster.Name, err)
	}
	for _, what := range [][]string{{"node", "--all"}, {"clusternetwork/default"}} {
		args := append([]string{"wait", "--for=condition=Ready", "--timeout=60s"}, what...)
		if _, err := d.Cluster.Kubectl(ctx, args...); err != nil {
			return fmt.Errorf("%w (see: %s kubectl get nodes,clusternetwork,nodenetwork -o wide)", err, labCommand)
		}
	}
	return nil
}

func (d *demo) apply(ctx context.Context) error {
	nodes, err := d.Cluster.Nodes()
	if err != nil {
		return err
	}
	text, err := manifest(len(nodes))
	if err != nil {
		return err
	}
	return d.Cluster.Apply(ctx, text)
}

func (d *demo) awaitPods(ctx context.Context) error {
	_, err := d.Cluster.Kubectl(ctx, "-n", Namespace, "rollout", "status", "--timeout=180s", "deployment")
	if err == nil || ctx.Err() != nil {
		return err
	}
	d.Screen.title("Not all pods became Ready")
	for _, args := range [][]string{
		{"-n", Namespace, "get", "pods", "-o", "wide"},
		{"-n", Namespace, "get", "events", "--field-selector=type=Warning", "--sort-by=.lastTimestamp"},
	} {
		fmt.Fprintf(d.Screen, "%s\n", d.attempt(ctx, args...))
	}
	return err
}
