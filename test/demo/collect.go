package demo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// collectTimeout bounds each question: a node may be gone, and that is the news.
const collectTimeout = 10 * time.Second

// failureDir is where collect saves, beside the results.
func (o Options) failureDir() string { return filepath.Join(filepath.Dir(o.File), "demo-failure") }

// forget removes what an earlier run left, so that nobody takes it for this one's.
func (o Options) forget() error {
	if err := os.Remove(o.File); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return os.RemoveAll(o.failureDir())
}

// collect saves what tells why the demo failed: the lab may be gone when somebody looks.
func (d *demo) collect(ctx context.Context) error {
	if _, err := d.Cluster.Machines(); err != nil {
		return nil // it never came up, and has said why
	}
	if err := os.MkdirAll(d.failureDir(), 0o755); err != nil {
		return err
	}
	ctx = context.WithoutCancel(ctx) // perhaps a signal ended the demo
	var failed error
	for name, args := range d.questions(ctx) {
		failed = errors.Join(failed, os.WriteFile(filepath.Join(d.failureDir(), name), d.attempt(ctx, args...), 0o644))
	}
	fmt.Fprintf(d.Screen, "\nThe product's logs, events and objects are in %s.\n", relative(d.failureDir()))
	return failed
}

// questions are kubectl's arguments by the name of the file that its answer goes to.
func (d *demo) questions(ctx context.Context) map[string][]string {
	all := map[string][]string{
		"pods.txt":      {"get", "pods", "--all-namespaces", "-o", "wide"},
		"nodes.txt":     {"describe", "nodes"},
		"networks.yaml": {"get", "clusternetwork,nodenetwork", "-o", "yaml"},
		"events.txt":    {"get", "events", "--all-namespaces", "--sort-by=.lastTimestamp"},
	}
	// One by one: kubectl gives up at the first pod whose node does not answer.
	for _, pod := range strings.Fields(string(d.attempt(ctx, "-n", "weft-system", "get", "pods", "-o", "name"))) {
		if name, ok := strings.CutPrefix(pod, "pod/"); ok {
			all[name+".log"] = []string{"-n", "weft-system", "logs", pod, "--all-containers"}
		}
	}
	return all
}

// attempt is what kubectl says, be it an error.
func (d *demo) attempt(ctx context.Context, args ...string) []byte {
	ctx, cancel := context.WithTimeout(ctx, collectTimeout)
	defer cancel()
	text, err := d.Cluster.KubectlCommand(ctx, args...).CombinedOutput()
	if err != nil {
		text = fmt.Appendf(text, "kubectl %s: %v\n", strings.Join(args, " "), err)
	}
	return text
}
