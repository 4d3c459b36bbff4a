package demo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/weft-network/weft/test/lab"
)

// Options selects where to run the demo and where its results go.
type Options struct {
	Cluster *lab.Cluster
	Nodes   int    // if the demo starts the lab
	File    string // file for the results as JSON
	Last    bool   // the caller removes the lab afterwards, so do not suggest next commands
	Screen  Screen
}

// Run starts the lab unless it runs, runs the demo and prints the results. It fails unless every pair is ok. The lab
// stays up.
func Run(ctx context.Context, o Options) error {
	d := &demo{Options: o, start: time.Now()}
	if err := o.forget(); err != nil {
		return err
	}
	if err := d.prepare(ctx); err != nil {
		return errors.Join(err, d.collect(ctx))
	}
	if err := d.show(ctx); err != nil {
		return errors.Join(err, d.collect(ctx))
	}
	return nil
}

// demo is one run.
type demo struct {
	Options
	start time.Time
}

// prepare returns when the demo's pods are Ready.
func (d *demo) prepare(ctx context.Context) error {
	for _, s := range []struct {
		name string
		do   func(context.Context) error
	}{
		{"lab is up", d.ensureUp},
		{"demo applied", d.apply},
		{"pods Ready", d.awaitPods},
	} {
		began := time.Now()
		if err := s.do(ctx); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		d.say(s.name, began)
	}
	return nil
}

// say prints a step with the time since the start and its own duration, as the lab does.
func (d *demo) say(step string, began time.Time) {
	fmt.Fprintf(d.Screen, "%7.1fs  %-28s %6.1fs\n", time.Since(d.start).Seconds(), step, time.Since(began).Seconds())
}

func (d *demo) show(ctx context.Context) error {
	pods, err := d.pods(ctx)
	if err != nil {
		return err
	}
	began := time.Now()
	report := d.traffic(ctx, pods)
	d.say("every pod called every other", began)
	if err := report.write(d.File); err != nil {
		return err
	}
	printTraffic(d.Screen, pods, report)
	if report.OK < report.Pairs {
		printFailures(d.Screen, d.Cluster.Name, relative(d.File), report)
		return fmt.Errorf("%d of %d pairs failed", report.Pairs-report.OK, report.Pairs)
	}
	return d.showNetwork(ctx, pods)
}

// showNetwork prints the network as Kubernetes and as OVN see it, and suggests next commands.
func (d *demo) showNetwork(ctx context.Context, pods []Pod) error {
	if err := d.showResources(ctx); err != nil {
		return err
	}
	topology, err := d.topology(ctx)
	if err != nil {
		return err
	}
	printTopology(d.Screen, topology)
	if err := d.showRecord(ctx, pods[0]); err != nil {
		return err
	}
	if !d.Last {
		printNext(d.Screen, d.Cluster.Name, pods, topology)
	}
	fmt.Fprintf(d.Screen, "\nThe results are in %s too.\n", relative(d.File))
	return nil
}

// showResources prints the product's own objects for the network.
func (d *demo) showResources(ctx context.Context) error {
	args := []string{"get", "clusternetwork,nodenetwork", "-o", "wide"}
	text, err := d.Cluster.Kubectl(ctx, args...)
	if err != nil {
		return err
	}
	d.Screen.title("kubectl get clusternetwork,nodenetwork -o wide")
	_, err = d.Screen.Write(text)
	return err
}

// relative returns a path as a user would type it.
func relative(path string) string {
	dir, err := os.Getwd()
	if err != nil {
		return path
	}
	if rel, err := filepath.Rel(dir, path); err == nil && filepath.IsLocal(rel) {
		return rel
	}
	return path
}
