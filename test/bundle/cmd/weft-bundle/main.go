// Command weft-bundle writes what package bundle makes. make generate runs it, after dist/install.yaml was made.
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
	rule, err := os.ReadFile(filepath.Join(root, "config/monitoring/rules.yaml"))
	if err != nil {
		return err
	}
	rules, err := bundle.PrometheusRules(rule)
	if err != nil {
		return fmt.Errorf("config/monitoring/rules.yaml: %w", err)
	}
	return os.WriteFile(filepath.Join(root, "dist/prometheus-rules.yaml"), rules, 0o644)
}
