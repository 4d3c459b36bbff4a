// Package apidocs generates docs/user/api.md, the reference of the API, from the CRDs of config/crd/bases and the constants of
// apis/network/v1alpha1. What is written by hand is in page.tmpl.
package apidocs

import (
	"bytes"
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"text/template"
)

// Page is the path of the page in the repository.
const Page = "docs/user/api.md"

//go:embed page.tmpl
var page string

// Generate returns the page for the repository at root. An error names the CRD or the file that cannot be read, or a function of page.tmpl
// that fails, such as for a kind without CRD.
func Generate(root string) ([]byte, error) {
	kinds, err := readKinds(filepath.Join(root, "config/crd/bases"))
	if err != nil {
		return nil, err
	}
	constants, err := readConstants(filepath.Join(root, "apis/network/v1alpha1"))
	if err != nil {
		return nil, err
	}
	t, err := template.New("page.tmpl").Funcs(template.FuncMap{
		"kind": kinds.render,
		"conditions": func() string {
			return constants.render("Condition", "PodPortReady", "PodHostPorts", "ServiceAddresses", "ServiceEgress")
		},
		"reasons": func() string { return constants.render("Reason") },
	}).Parse(page)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	if err := t.Execute(&b, nil); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// Write generates the page and writes it below root.
func Write(root string) error {
	text, err := Generate(root)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(root, Page), text, 0o644)
}

// wrap breaks text into lines of at most 140 columns; each line begins with indent.
func wrap(text, indent string) string {
	const width = 140
	var b strings.Builder
	column := 0
	for _, word := range strings.Fields(text) {
		switch {
		case column == 0:
			b.WriteString(indent + word)
			column = len(indent) + len(word)
		case column+1+len(word) > width:
			b.WriteString("\n" + indent + word)
			column = len(indent) + len(word)
		default:
			b.WriteString(" " + word)
			column += 1 + len(word)
		}
	}
	return b.String()
}

// sentence ends text with a full stop and begins it with a capital, unless it begins with the name of a field.
func sentence(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if text == "" {
		return ""
	}
	if !strings.HasSuffix(text, ".") {
		text += "."
	}
	return text
}

// code puts a value into backquotes.
func code(value any) string { return fmt.Sprintf("`%v`", value) }
