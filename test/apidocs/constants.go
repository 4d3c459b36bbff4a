package apidocs

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// constants are the documented string constants of the API, by the order of their values.
type constants []constant

// constant is a condition type or reason: its name in Go, its value, and its doc comment.
type constant struct{ name, value, doc string }

// groupName is the constant whose value other constants begin with.
const groupName = "GroupName"

func readConstants(dir string) (constants, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("no Go file in %s", dir)
	}
	var found constants
	for _, path := range files {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, text, parser.ParseComments)
		if err != nil {
			return nil, err
		}
		for _, declaration := range file.Decls {
			if d, ok := declaration.(*ast.GenDecl); ok && d.Tok == token.CONST {
				found = append(found, declared(d)...)
			}
		}
	}
	slices.SortFunc(found, func(a, b constant) int { return strings.Compare(a.value, b.value) })
	return found, nil
}

// declared returns the string constants of a declaration. A constant that is declared alone has the declaration's comment.
func declared(d *ast.GenDecl) (found []constant) {
	for _, s := range d.Specs {
		spec, ok := s.(*ast.ValueSpec)
		if !ok || len(spec.Names) != 1 || len(spec.Values) != 1 {
			continue
		}
		value, ok := stringOf(spec.Values[0])
		if !ok {
			continue
		}
		doc := spec.Doc.Text()
		if doc == "" && len(d.Specs) == 1 {
			doc = d.Doc.Text()
		}
		found = append(found, constant{spec.Names[0].Name, value, doc})
	}
	return found
}

// stringOf evaluates a literal, or GroupName and a literal.
func stringOf(e ast.Expr) (string, bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		value, err := strconv.Unquote(e.Value)
		return value, err == nil && e.Kind == token.STRING
	case *ast.BinaryExpr:
		name, ok := e.X.(*ast.Ident)
		value, literal := stringOf(e.Y)
		return "network.weft.dev" + value, ok && name.Name == groupName && literal
	}
	return "", false
}

// render lists the documented constants whose name has one of the prefixes.
func (all constants) render(prefixes ...string) string {
	var b strings.Builder
	for _, c := range all {
		if c.doc == "" || !slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(c.name, p) }) {
			continue
		}
		doc := strings.TrimPrefix(strings.Join(strings.Fields(c.doc), " "), c.name)
		for _, other := range all { // the page names values, not Go's constants
			doc = replaceWord(doc, other.name, code(other.value))
		}
		b.WriteString("- " + strings.TrimLeft(wrap(fmt.Sprintf("**`%s`**%s", c.value, doc), "  "), " ") + "\n")
	}
	return strings.TrimRight(b.String(), "\n")
}

// replaceWord replaces a word that stands alone, with what may follow a word in a sentence.
func replaceWord(text, word, by string) string {
	words := strings.Split(text, " ")
	for i, w := range words {
		if trimmed := strings.TrimRight(w, ".,:;)"); strings.TrimLeft(trimmed, "(") == word {
			words[i] = strings.Replace(w, word, by, 1)
		}
	}
	return strings.Join(words, " ")
}
