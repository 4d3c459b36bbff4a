package manifest

import (
	"slices"
	"strings"
	"testing"
)

func TestReadsDocumentsAndLists(t *testing.T) {
	for name, text := range map[string]string{
		"YAML": `
# a comment only
---
apiVersion: v1
kind: Namespace
metadata: {name: demo}
---
---
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Pod, metadata: {name: web-0, namespace: demo}}
- {apiVersion: v1, kind: Pod, metadata: {name: web-1}}
`,
		"JSON": `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"demo"}}
{"apiVersion":"v1","kind":"PodList","items":[{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web-0","namespace":"demo"}},
{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web-1"}}]}`,
	} {
		t.Run(name, func(t *testing.T) {
			documents, err := Read("web.yaml", strings.NewReader(text))
			if err != nil {
				t.Fatal(err)
			}
			var found []string
			for _, d := range documents {
				_, what, _ := strings.Cut(d.String(), " (")
				found = append(found, what)
			}
			if want := []string{"Namespace demo)", "Pod demo/web-0)", "Pod web-1)"}; !slices.Equal(found, want) {
				t.Errorf("read %q, want %q", found, want)
			}
		})
	}
}

func TestErrorNamesTheDocument(t *testing.T) {
	const good = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\n"
	for _, test := range []struct {
		name, text string
		says       []string
	}{
		{"no YAML", good + "---\nkind: [", []string{"web.yaml, document 2", "yaml"}},
		{"no apiVersion", good + "---\nkind: Pod\nmetadata: {name: q}\n", []string{"web.yaml, document 2", "apiVersion"}},
		{"no kind", "apiVersion: v1\nmetadata: {name: q}\n", []string{"web.yaml, document 1", "Kind"}},
		{"no name", "apiVersion: v1\nkind: Pod\n", []string{"web.yaml, document 1", "metadata.name"}},
		{"a list's item without a name", "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: Pod}\n", []string{"web.yaml, document 1", "items[0]", "metadata.name"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := Read("web.yaml", strings.NewReader(test.text))
			if err == nil {
				t.Fatal("it was read")
			}
			for _, word := range test.says {
				if !strings.Contains(err.Error(), word) {
					t.Errorf("%q does not say %q", err, word)
				}
			}
		})
	}
}
