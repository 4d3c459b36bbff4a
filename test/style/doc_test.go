package style

import (
	"go/ast"
	"slices"
	"strings"
	"testing"
)

// A doc comment of a function or type begins with its name, so that no comment stays behind when its function moves.
// Test functions may say what they prove instead, but not begin with the name of something else.
func TestDocCommentsBeginWithTheName(t *testing.T) {
	for _, s := range sources(t) {
		declared := map[string]bool{}
		for _, d := range s.ast.Decls {
			for _, name := range namesOf(d) {
				declared[name] = true
			}
		}
		for _, d := range s.ast.Decls {
			doc := docOf(d)
			words, names := strings.Fields(doc.Text()), namesOf(d)
			if len(words) == 0 || len(names) != 1 {
				continue
			}
			first, _, _ := strings.Cut(strings.TrimRight(words[0], ",.:;"), "'")
			if name := names[0]; first != name && (!isTest(name) || declared[first]) {
				t.Errorf("%s: the doc comment of %s begins with %q", s.fset.Position(d.Pos()), name, first)
			}
		}
	}
}

func isTest(name string) bool {
	return slices.ContainsFunc([]string{"Test", "Benchmark", "Fuzz", "Example"}, func(prefix string) bool {
		return strings.HasPrefix(name, prefix)
	})
}

// docOf returns the doc comment of a function, or of types that are declared alone.
func docOf(d ast.Decl) *ast.CommentGroup {
	switch d := d.(type) {
	case *ast.FuncDecl:
		return d.Doc
	case *ast.GenDecl:
		return d.Doc
	}
	return nil
}

// namesOf returns the names of a function or of types.
func namesOf(d ast.Decl) (names []string) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		return []string{d.Name.Name}
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			if s, ok := spec.(*ast.TypeSpec); ok {
				names = append(names, s.Name.Name)
			}
		}
	}
	return names
}
