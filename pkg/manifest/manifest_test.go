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
		{"no kind", "apiVersion: v1\nmetadata: {name: q}\n", []string{"web.yaml, document 1", "kind is missing"}},
		{"no name", "apiVersion: v1\nkind: Pod\n", []string{"web.yaml, document 1", "metadata.name"}},
		{"a list's item without a name", "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: Pod}\n",
			[]string{"web.yaml, document 1", "items[0]", "metadata.name"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := Read("web.yaml", strings.NewReader(test.text))
			if err == nil {
				t.Fatal("no error")
			}
			for _, word := range test.says {
				if !strings.Contains(err.Error(), word) {
					t.Errorf("%q does not contain %q", err, word)
				}
			}
		})
	}
}

// The error for a file that is not a manifest uses the terms of manifests and no type of Go.
func TestWhatIsNoManifestIsNamed(t *testing.T) {
	for _, test := range []struct{ name, text, want string }{
		{"words", "just words\n", "a string is not a Kubernetes object: it needs the fields apiVersion, kind and metadata.name"},
		{"a number", "7\n", "a number is not a Kubernetes object: it needs the fields apiVersion, kind and metadata.name"},
		{"a list", "[1, 2]\n", "a list is not a Kubernetes object: it needs the fields apiVersion, kind and metadata.name"},
		{"some other mapping", "a: 1\n", "kind is missing"},
		{"a kind that is a number", "{apiVersion: v1, kind: 7}\n", "kind is a number, not a string"},
		{"an apiVersion that is a number", "{apiVersion: 1, kind: Pod, metadata: {name: p}}\n", "apiVersion is not a string"},
		{"a name that is a number", "{apiVersion: v1, kind: Pod, metadata: {name: 7}}\n", "metadata.name is not a string"},
		{"metadata that is a string", "{apiVersion: v1, kind: Pod, metadata: p}\n", "metadata.name is not a string"},
		{"a List of words", "{apiVersion: v1, kind: List, items: [foo]}\n", "items[0]: a string is not a Kubernetes object"},
		{"a List without a list", "{apiVersion: v1, kind: List, items: foo}\n", "items is a string, not a list"},
		{"null in a List", "{apiVersion: v1, kind: List, items: [null]}\n", "items[0]: null is not a Kubernetes object"},
		{"no text", "\x00\x01\x02",
			"cannot be read as YAML or JSON: error converting YAML to JSON: yaml: control characters are not allowed"},
		{"half of a JSON document", `{"apiVersion":"v1"`, "cannot be read as YAML or JSON: unexpected EOF"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := Read("web.yaml", strings.NewReader(test.text))
			if want := "web.yaml, document 1: " + test.want; err == nil || err.Error() != want {
				t.Errorf("error is %v, want %s", err, want)
			}
		})
	}
}
