package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/weft-network/weft/test/lab/tools"
)

func newTools() *cobra.Command {
	return &cobra.Command{
		Use:       "tools ovn|envtest|all",
		Short:     "Make the programs that the lab and the tests run, in $WEFT_CACHE",
		ValidArgs: []string{"ovn", "envtest", "all"},
		Args:      cobra.MatchAll(cobra.ExactArgs(1), cobra.OnlyValidArgs),
		RunE:      func(cmd *cobra.Command, args []string) error { return makeTools(cmd.Context(), args[0]) },
	}
}

func makeTools(ctx context.Context, what string) error {
	cache, err := tools.DefaultCache()
	if err != nil {
		return err
	}
	if what == "all" {
		if err := tools.InstallHostPackages(ctx); err != nil {
			return err
		}
	}
	if what == "ovn" || what == "all" {
		if err := timed("ovn", func() (bool, error) { return cache.MakeOVN(ctx) }); err != nil {
			return err
		}
	}
	return buildPrograms(ctx, cache, what)
}

func buildPrograms(ctx context.Context, cache tools.Cache, what string) error {
	var programs []tools.Program
	switch what {
	case "envtest":
		programs = tools.Envtest()
	case "all":
		programs = slices.Concat(tools.Envtest(), tools.Node())
	}
	root, err := tools.SourceRoot()
	if err != nil {
		return err
	}
	for _, p := range programs {
		if err := timed(p.Name, func() (bool, error) { return cache.Build(ctx, root, p) }); err != nil {
			return err
		}
	}
	return nil
}

// timed says what a step did and how long it took.
func timed(name string, step func() (done bool, err error)) error {
	start := time.Now()
	done, err := step()
	if err != nil {
		return err
	}
	verb := "is there"
	if done {
		verb = "made"
	}
	fmt.Printf("%-24s %-8s %6.1fs\n", name, verb, time.Since(start).Seconds())
	return nil
}
