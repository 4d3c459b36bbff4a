package tools

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
)

// Make makes the missing tools and prints on out how long each took: "ovn" is OVN and Open vSwitch, "envtest" the
// programs for tests with an API server, "linux" the kernel of test/kernel and its nft, "all" the programs of a lab, "upstream" the
// additional programs for Kubernetes' own tests.
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
	if what == "ovn" || what == "all" {
		if err := timed(out, "bird", func() (bool, error) { return c.MakeBIRD(ctx) }); err != nil {
			return err
		}
	}
	if what == "upstream" {
		if err := timed(out, "shell", func() (bool, error) { return c.MakeShell(ctx) }); err != nil {
			return err
		}
	}
	if what == "linux" {
		if err := timed(out, "nft", func() (bool, error) { return c.MakeNFT(ctx) }); err != nil {
			return err
		}
		return timed(out, "linux", func() (bool, error) { return c.MakeLinux(ctx, out) })
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
	progress := newProgress(out, programs)
	defer progress.follow()()
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(2) // while one links, which takes one core, the other compiles
	for i, log := range slices.Clone(progress.left) {
		group.Go(func() error {
			return progress.build(log, func() (bool, error) { return c.Build(ctx, root, programs[i], log) })
		})
	}
	return group.Wait()
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
