package tools

import (
	"context"
	"errors"
	"os"
	"path/filepath"
)

// birdPrograms are BIRD, a router's BGP speaker, and its client.
var birdPrograms = []string{"bird", "birdc"}

// BIRD returns the path of a program of BIRD: "bird" or "birdc".
func (c Cache) BIRD(name string) string { return filepath.Join(c.Dir, "bird", "bin", name) }

// MakeBIRD downloads BIRD 2 and writes wrappers that start it with its own C library.
func (c Cache) MakeBIRD(ctx context.Context) (built bool, err error) {
	return c.once("bird", ovnSuite()+" bird2\n", c.BIRD("bird"), func() error { return c.fetchBIRD(ctx) })
}

func (c Cache) fetchBIRD(ctx context.Context) error {
	debs, err := c.fetch(ctx, "apt/bird", ovnSuite(), []string{"bird2"})
	if err != nil {
		return err
	}
	final := filepath.Join(c.Dir, "bird")
	root := filepath.Join(final, "root")
	if err := errors.Join(os.RemoveAll(final), os.MkdirAll(filepath.Join(final, "bin"), 0o755)); err != nil {
		return err
	}
	if err := unpack(ctx, debs, root); err != nil {
		return err
	}
	for _, name := range birdPrograms {
		found, err := findProgram(root, name)
		if err != nil {
			return err
		}
		inRoot, err := filepath.Rel(root, found)
		if err != nil {
			return err
		}
		if err := os.WriteFile(c.BIRD(name), []byte(wrapper(root, name, inRoot)), 0o755); err != nil {
			return err
		}
	}
	return nil
}
