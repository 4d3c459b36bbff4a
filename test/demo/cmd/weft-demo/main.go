// Command weft-demo shows Weft at work on one machine. It starts the lab, runs pods on every node, calls every pod
// from every other, and prints what the network looks like. Run it inside the repository.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/weft-network/weft/test/demo"
	"github.com/weft-network/weft/test/lab"
	"github.com/weft-network/weft/test/lab/tools"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, unix.SIGTERM)
	defer stop()
	if err := newRoot().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "weft-demo:", err)
		os.Exit(1)
	}
}

// flags are the command line's flags.
type flags struct {
	lab, file string
	nodes     int
	down      bool
}

func newRoot() *cobra.Command {
	f := flags{lab: os.Getenv("WEFT_LAB"), nodes: 2}
	cmd := &cobra.Command{
		Use:   "weft-demo",
		Short: "Show Weft at work: a cluster on this machine, pods on every node, and packets between all of them",
		Long: `Brings the lab up unless it is, runs pods on every node, lets each ping and HTTP-get all others over IPv4 and IPv6, prints
what came of it and what the network looks like, and leaves the cluster up. It fails unless every pair of pods is ok.`,
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE:          func(cmd *cobra.Command, _ []string) error { return f.run(cmd.Context()) },
	}
	cmd.Flags().StringVar(&f.lab, "name", f.lab, `name of the lab (default $WEFT_LAB or "weft")`)
	cmd.Flags().StringVar(&f.file, "out", "", "JSON file for the results (default _out/demo.json in the repository)")
	cmd.Flags().IntVar(&f.nodes, "nodes", f.nodes, "number of nodes, if the demo starts the lab")
	cmd.Flags().BoolVar(&f.down, "down", false, "remove the lab at the end, also after a failure")
	return cmd
}

func (f flags) run(ctx context.Context) error {
	file, err := f.path()
	if err != nil {
		return err
	}
	cluster, err := lab.Open(lab.Options{Name: f.lab, Output: os.Stdout})
	if err != nil {
		return err
	}
	screen := demo.Screen{Writer: os.Stdout, Color: colored(os.Stdout)}
	err = demo.Run(ctx, demo.Options{Cluster: cluster, Nodes: f.nodes, File: file, Last: f.down, Screen: screen})
	if f.down {
		err = errors.Join(err, cluster.Down(context.WithoutCancel(ctx)))
	}
	return err
}

func (f flags) path() (string, error) {
	if f.file != "" {
		return filepath.Abs(f.file)
	}
	root, err := tools.SourceRoot()
	if err != nil {
		return "", err
	}
	return filepath.Join(root, "_out", "demo.json"), nil
}

// colored reports whether the output is a terminal with colours and the user has not disabled them (no-color.org).
func colored(file *os.File) bool {
	if os.Getenv("NO_COLOR") != "" || os.Getenv("TERM") == "dumb" {
		return false
	}
	_, err := unix.IoctlGetTermios(int(file.Fd()), unix.TCGETS)
	return err == nil
}
