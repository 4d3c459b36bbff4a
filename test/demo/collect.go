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

// collectTimeout bounds each query, because a node may be gone, which may be the very failure.
const collectTimeout = 10 * time.Second

// failureDir returns the folder, next to the results, where collect saves its files.
func (o Options) failureDir() string { return filepath.Join(filepath.Dir(o.File), "demo-failure") }

// forget removes the files of an earlier run, so that they are not mistaken for this run's.
func (o Options) forget() error {
	if err := os.Remove(o.File); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return os.RemoveAll(o.failureDir())
}

// collect saves what explains the demo's failure, because the lab may be gone when a person examines it.
func (d *demo) collect(ctx context.Context) error {
	if _, err := d.Cluster.Machines(); err != nil {
		return nil // the lab did not start and has printed why
	}
	if err := os.MkdirAll(d.failureDir(), 0o755); err != nil {
		return err
	}
	ctx = context.WithoutCancel(ctx) // a signal may have ended the demo
	var failed error
	for name, args := range d.queries(ctx) {
		failed = errors.Join(failed, os.WriteFile(filepath.Join(d.failureDir(), name), d.attempt(ctx, args...), 0o644))
	}
	fmt.Fprintf(d.Screen, "\nThe product's logs, events and objects are in %s.\n", relative(d.failureDir()))
	return failed
}

// queries returns the arguments of kubectl by the file name for their output.
func (d *demo) queries(ctx context.Context) map[string][]string {
	all := map[string][]string{
		"pods.txt":      {"get", "pods", "--all-namespaces", "-o", "wide"},
		"nodes.txt":     {"describe", "nodes"},
		"networks.yaml": {"get", "clusternetwork,nodenetwork", "-o", "yaml"},
		"events.txt":    {"get", "events", "--all-namespaces", "--sort-by=.lastTimestamp"},
	}
	// One command per pod: kubectl gives up at the first pod whose node does not answer.
	for _, pod := range strings.Fields(string(d.attempt(ctx, "-n", "weft-system", "get", "pods", "-o", "name"))) {
		if name, ok := strings.CutPrefix(pod, "pod/"); ok {
			all[name+".log"] = []string{"-n", "weft-system", "logs", pod, "--all-containers"}
		}
	}
	return all
}

// attempt returns kubectl's output, including an error.
func (d *demo) attempt(ctx context.Context, args ...string) []byte {
	ctx, cancel := context.WithTimeout(ctx, collectTimeout)
	defer cancel()
	text, err := d.Cluster.KubectlCommand(ctx, args...).CombinedOutput()
	if err != nil {
		text = fmt.Appendf(text, "kubectl %s: %v\n", strings.Join(args, " "), err)
	}
	return text
}
