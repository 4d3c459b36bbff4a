package tools

import (
	"context"
	"path/filepath"
)

// BIRD returns the path of a program of BIRD, a router's BGP speaker: "bird" or its client "birdc".
func (c Cache) BIRD(name string) string { return filepath.Join(c.Dir, "bird", "bin", name) }

// MakeBIRD downloads BIRD 2 and writes wrappers that start it with its own C library.
func (c Cache) MakeBIRD(ctx context.Context) (built bool, err error) {
	return c.once("bird", ovnSuite()+" bird2\n", c.BIRD("bird"), func() error {
		return c.fetchPrograms(ctx, "bird", "bird2", "bird", "birdc")
	})
}
