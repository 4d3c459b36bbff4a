// Command weft-upstream runs Kubernetes' own network tests in a lab. Run it inside the repository.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/weft-network/weft/test/lab"
	"github.com/weft-network/weft/test/lab/tools"
	"github.com/weft-network/weft/test/upstream"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, unix.SIGTERM)
	defer stop()
	if err := newRoot().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "weft-upstream:", err)
		os.Exit(1)
	}
}

// flags are the command line's flags.
type flags struct {
	lab, focus string
	processes  int
	down       bool
}

func newRoot() *cobra.Command {
	f := flags{processes: 4}
	var names []string
	for _, s := range upstream.Suites {
		names = append(names, s.Name)
	}
	cmd := &cobra.Command{
		Use:           "weft-upstream [" + strings.Join(names, "|") + "]...",
		Short:         "Run Kubernetes' own network tests: all suites, or some of them",
		ValidArgs:     names,
		Args:          cobra.OnlyValidArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE:          func(cmd *cobra.Command, args []string) error { return f.run(cmd.Context(), args) },
	}
	cmd.Flags().StringVar(&f.lab, "name", "upstream", "name of the lab")
	cmd.Flags().StringVar(&f.focus, "focus", "", "only the tests with matching names")
	cmd.Flags().IntVar(&f.processes, "procs", f.processes, "number of parallel tests")
	cmd.Flags().BoolVar(&f.down, "down", false, "remove the lab at the end, also after a failure")
	return cmd
}

func (f flags) run(ctx context.Context, names []string) error {
	root, err := tools.SourceRoot()
	if err != nil {
		return err
	}
	cluster, err := lab.Open(lab.Options{Name: f.lab, Output: os.Stdout})
	if err != nil {
		return err
	}
	err = upstream.Run(ctx, upstream.Options{Cluster: cluster, Suites: f.suites(names),
		Folder: filepath.Join(root, "_out", "e2e"), Processes: f.processes, Output: os.Stdout})
	if f.down {
		err = errors.Join(err, cluster.Down(context.WithoutCancel(ctx)))
	}
	return err
}

func (f flags) suites(names []string) (chosen []upstream.Suite) {
	for _, s := range upstream.Suites {
		if len(names) > 0 && !slices.Contains(names, s.Name) {
			continue
		}
		if f.focus != "" {
			s.Focus = f.focus
		}
		chosen = append(chosen, s)
	}
	return chosen
}
