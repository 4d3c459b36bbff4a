// Command weft-bundle writes the files of package bundle. make generate runs it after generating dist/install.yaml.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/weft-network/weft/test/bundle"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: weft-bundle <root of the source>")
		os.Exit(2)
	}
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "weft-bundle:", err)
		os.Exit(1)
	}
}

func run(root string) error {
	files, err := bundle.Files(os.DirFS(root))
	if err != nil {
		return err
	}
	if err := os.RemoveAll(filepath.Join(root, bundle.ManifestsDir)); err != nil {
		return err
	}
	for path, text := range files {
		path = filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, text, 0o644); err != nil {
			return err
		}
	}
	return nil
}
