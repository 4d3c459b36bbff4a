package demo

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"text/template"
	"time"

	"github.com/weft-network/weft/test/lab"
)

// Namespace holds all that the demo makes in the cluster.
const Namespace = "demo"

// deployment is one of the demo's.
type deployment struct {
	Name     string
	Replicas int
}

// deployments put three pods on each node: enough for pairs on the same node and across.
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
	return d.Cluster.Up(ctx, lab.UpOptions{Nodes: d.Nodes})
}

// checkUp tells a lab that works from one whose Up failed half-way or whose machines were killed.
func (d *demo) checkUp(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if _, err := d.Cluster.Kubectl(ctx, "get", "--raw=/readyz"); err != nil {
		return fmt.Errorf("lab %s is there, but its API server is not ready: take it down (%s down) and try again: %w", d.Cluster.Name, labCommand, err)
	}
	return nil
}

func (d *demo) awaitNetwork(ctx context.Context) error {
	for _, what := range [][]string{{"node", "--all"}, {"clusternetwork/default"}} {
		args := append([]string{"wait", "--for=condition=Ready", "--timeout=60s"}, what...)
		if _, err := d.Cluster.Kubectl(ctx, args...); err != nil {
			return fmt.Errorf("%w (see: %s kubectl get clusternetwork,nodenetwork -o wide)", err, labCommand)
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
	return err
}

// collect saves, beside the results, what tells why the demo failed: the lab may be gone when somebody looks.
func (d *demo) collect(ctx context.Context) error {
	if _, err := d.Cluster.Machines(); err != nil {
		return nil // it never came up, and has said why
	}
	dir := filepath.Join(filepath.Dir(d.File), "demo-failure")
	if err := errors.Join(os.RemoveAll(dir), os.MkdirAll(dir, 0o755)); err != nil {
		return err
	}
	// A signal ended the demo, perhaps; looking takes a moment all the same.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
	defer cancel()
	for name, args := range map[string][]string{
		"pods.txt":     {"get", "pods", "--all-namespaces", "-o", "wide"},
		"networks.txt": {"get", "clusternetwork,nodenetwork", "-o", "yaml"},
		"events.txt":   {"get", "events", "--all-namespaces", "--sort-by=.lastTimestamp"},
		"operator.log": {"-n", "weft-system", "logs", "deployment/weft-operator"},
		"agents.log":   {"-n", "weft-system", "logs", "daemonset/weft-agent", "--all-pods", "--prefix"},
	} {
		// What cannot be had is left out: the failure itself is the news.
		text, err := d.Cluster.KubectlCommand(ctx, args...).CombinedOutput()
		if err != nil {
			text = fmt.Appendf(text, "%v\n", err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o644); err != nil {
			return err
		}
	}
	fmt.Fprintf(d.Screen, "\nThe product's logs, events and objects are in %s.\n", relative(dir))
	return nil
}
