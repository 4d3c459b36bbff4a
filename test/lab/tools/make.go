package tools

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"
)

// Make makes the tools that are not there yet and says on out what each took: "ovn" is OVN and Open vSwitch, "envtest"
// what the API server's tests run, "all" what a lab runs, "upstream" what Kubernetes' own tests need beside a lab.
func (c Cache) Make(ctx context.Context, what string, out io.Writer) error {
	if what == "all" {
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

// timed says what a step did and how long it took.
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
