package cli

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/weft-network/weft/pkg/manifest"
)

// readFiles reads the manifests of -f: files, folders, or "-" for standard input.
func readFiles(names []string, in io.Reader) ([]manifest.Document, error) {
	var found []manifest.Document
	for _, name := range names {
		documents, err := readSource(name, in)
		if err != nil {
			return nil, err
		}
		found = append(found, documents...)
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("no objects in %s", strings.Join(names, ", "))
	}
	return found, nil
}

func readSource(name string, in io.Reader) ([]manifest.Document, error) {
	if name == "-" {
		return manifest.Read("standard input", in)
	}
	if strings.HasPrefix(name, "https://") || strings.HasPrefix(name, "http://") {
		return nil, fmt.Errorf("%s: URLs are not supported; pipe the content: curl -L %s | kubectl weft plan -f -", name, name)
	}
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return readFile(name)
	}
	return readFolder(name)
}

func readFile(name string) ([]manifest.Document, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return manifest.Read(name, file)
}

// readFolder reads the YAML and JSON files of a folder in the order of their names. It does not read subfolders.
func readFolder(name string) ([]manifest.Document, error) {
	entries, err := os.ReadDir(name)
	if err != nil {
		return nil, err
	}
	var found []manifest.Document
	for _, entry := range entries {
		if !isManifest(entry) {
			continue
		}
		documents, err := readFile(filepath.Join(name, entry.Name()))
		if err != nil {
			return nil, err
		}
		found = append(found, documents...)
	}
	return found, nil
}

func isManifest(entry fs.DirEntry) bool {
	return !entry.IsDir() && slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(entry.Name()))
}
