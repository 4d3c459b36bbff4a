package tools

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
)

const module = "module github.com/weft-network/weft\n"

// SourceRoot returns the repository: the folder above the working folder with Weft's own go.mod.
func SourceRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if text, err := os.ReadFile(filepath.Join(dir, "go.mod")); err == nil && bytes.HasPrefix(text, []byte(module)) {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("source: run inside the repository (no go.mod of Weft above the working folder)")
		}
		dir = parent
	}
}
