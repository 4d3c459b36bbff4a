package style

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const root = "../.."

// files returns the paths below the repository's root, with slashes, that end in extension and that people write.
func files(t *testing.T, extension string) []string {
	t.Helper()
	var found []string
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		if entry.IsDir() && relative != "." && (strings.HasPrefix(entry.Name(), ".") || strings.HasPrefix(entry.Name(), "_") ||
			entry.Name() == "testdata" || relative == "bin") {
			return fs.SkipDir
		}
		if !entry.IsDir() && strings.HasSuffix(path, extension) {
			found = append(found, filepath.ToSlash(relative))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// source is a Go file that people write.
type source struct {
	path string
	text string
	fset *token.FileSet
	ast  *ast.File
}

func sources(t *testing.T) []source {
	t.Helper()
	var found []source
	for _, path := range files(t, ".go") {
		s := source{path: path, text: read(t, path), fset: token.NewFileSet()}
		var err error
		if s.ast, err = parser.ParseFile(s.fset, path, s.text, parser.ParseComments|parser.SkipObjectResolution); err != nil {
			t.Fatal(err)
		}
		if !ast.IsGenerated(s.ast) {
			found = append(found, s)
		}
	}
	return found
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
