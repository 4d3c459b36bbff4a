// Command weft-chart writes the Helm chart. make generate runs it after generating dist/install.yaml.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/weft-network/weft/test/helm"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: weft-chart <root of the source>")
		os.Exit(2)
	}
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "weft-chart:", err)
		os.Exit(1)
	}
}

func run(root string) error {
	install, err := os.ReadFile(filepath.Join(root, "dist", "install.yaml"))
	if err != nil {
		return err
	}
	files, err := helm.Files(install)
	if err != nil {
		return err
	}
	folder := filepath.Join(root, helm.Folder)
	if err := os.RemoveAll(folder); err != nil {
		return err
	}
	for name, text := range files {
		path := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, text, 0o644); err != nil {
			return err
		}
	}
	return nil
}
