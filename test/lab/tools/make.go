package tools

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"
)

// Make makes the missing tools and prints on out how long each took: "ovn" is OVN and Open vSwitch, "envtest" the
// programs for tests with an API server, "all" the programs of a lab, "upstream" the additional programs for
// Kubernetes' own tests.
func (c Cache) Make(ctx context.Context, what string, out io.Writer) error {
	if what == "ovn" || what == "all" {
		if err := InstallHostPackages(ctx); err != nil {
			return err
		}
	}
	if what == "ovn" || what == "all" {
		if err := timed(out, "ovn", func() (bool, error) { return c.MakeOVN(ctx) }); err != nil {
			return err
		}
	}
	if what == "upstream" {
		if err := timed(out, "shell", func() (bool, error) { return c.MakeShell(ctx) }); err != nil {
			return err
		}
	}
	return c.buildPrograms(ctx, what, out)
}

func (c Cache) buildPrograms(ctx context.Context, what string, out io.Writer) error {
	var programs []Program
	switch what {
	case "envtest":
		programs = Envtest()
	case "all":
		programs = slices.Concat(Envtest(), Node())
	case "upstream":
		programs = Upstream()
	}
	root, err := SourceRoot()
	if err != nil {
		return err
	}
	for _, p := range programs {
		if err := timed(out, p.Name, func() (bool, error) { return c.Build(ctx, root, p) }); err != nil {
			return err
		}
	}
	return nil
}

// timed prints a step and its duration.
func timed(out io.Writer, name string, step func() (made bool, err error)) error {
	start := time.Now()
	made, err := step()
	if err != nil {
		return err
	}
	verb := "is there"
	if made {
		verb = "made"
	}
	fmt.Fprintf(out, "%-24s %-8s %6.1fs\n", name, verb, time.Since(start).Seconds())
	return nil
}
