package tools

import (
	"context"
	"errors"
	"os"
	"path/filepath"
)

// fetchPrograms downloads a Debian package to a folder of the cache, and writes wrappers there that start the package's
// programs with their own C library.
func (c Cache) fetchPrograms(ctx context.Context, folder, debian string, programs ...string) error {
	debs, err := c.fetch(ctx, filepath.Join("apt", folder), ovnSuite(), []string{debian})
	if err != nil {
		return err
	}
	final := filepath.Join(c.Dir, folder)
	root := filepath.Join(final, "root")
	if err := errors.Join(os.RemoveAll(final), os.MkdirAll(filepath.Join(final, "bin"), 0o755)); err != nil {
		return err
	}
	if err := unpack(ctx, debs, root); err != nil {
		return err
	}
	for _, name := range programs {
		found, err := findProgram(root, name)
		if err != nil {
			return err
		}
		inRoot, err := filepath.Rel(root, found)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(final, "bin", name), []byte(wrapper(root, name, inRoot)), 0o755); err != nil {
			return err
		}
	}
	return nil
}
