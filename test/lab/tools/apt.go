package tools

import (
	"context"
	"os"
	"path/filepath"

	"github.com/weft-network/weft/test/lab/apt"
)

// fetch downloads packages of a Debian release with all their dependencies. state is the cache folder for apt's state and
// the packages.
func (c Cache) fetch(ctx context.Context, state, suite string, packages []string) (debs []string, err error) {
	mirror, err := apt.Mirror()
	if err != nil {
		return nil, err
	}
	a, err := apt.New(filepath.Join(c.Dir, state), "", apt.Source{URI: mirror, Suite: suite})
	if err != nil {
		return nil, err
	}
	return a.Download(ctx, packages...)
}

// unpack extracts packages below root without running their scripts.
func unpack(ctx context.Context, debs []string, root string) error {
	if err := os.MkdirAll(root, 0o755); err != nil {
		return err
	}
	for _, deb := range debs {
		if err := run(ctx, root, nil, "dpkg-deb", "-x", deb, root); err != nil {
			return err
		}
	}
	return nil
}
