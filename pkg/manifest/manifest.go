// Package manifest reads Kubernetes objects from files as kubectl does: YAML or JSON, several documents, and lists.
package manifest

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// lookAhead is how many bytes tell JSON from YAML.
const lookAhead = 4096

// Document is one object and where it came from.
type Document struct {
	// Source names the file, Number its document in it, from 1. The items of a list have the list's number.
	Source string
	Number int
	Object *unstructured.Unstructured
}

// String says which document it is: "web.yaml, document 2 (Pod demo/web-0)".
func (d Document) String() string {
	name := d.Object.GetName()
	if namespace := d.Object.GetNamespace(); namespace != "" {
		name = namespace + "/" + name
	}
	return fmt.Sprintf("%s (%s %s)", place(d.Source, d.Number), d.Object.GetKind(), name)
}

func place(source string, number int) string { return fmt.Sprintf("%s, document %d", source, number) }

// Read returns the objects of a stream in their order; empty documents are left out. An error names the document.
func Read(source string, from io.Reader) ([]Document, error) {
	decoder := yaml.NewYAMLOrJSONDecoder(from, lookAhead)
	var found []Document
	for number := 1; ; number++ {
		var text runtime.RawExtension
		err := decoder.Decode(&text)
		if errors.Is(err, io.EOF) {
			return found, nil
		}
		var objects []*unstructured.Unstructured
		if err == nil {
			objects, err = parse(text.Raw)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", place(source, number), err)
		}
		for _, object := range objects {
			found = append(found, Document{source, number, object})
		}
	}
}

// parse reads one document: an object, a list of objects, or nothing.
func parse(text []byte) ([]*unstructured.Unstructured, error) {
	if text = bytes.TrimSpace(text); len(text) == 0 || bytes.Equal(text, []byte("null")) {
		return nil, nil
	}
	parsed, _, err := unstructured.UnstructuredJSONScheme.Decode(text, nil, nil)
	if err != nil {
		return nil, err
	}
	switch o := parsed.(type) {
	case *unstructured.UnstructuredList:
		var objects []*unstructured.Unstructured
		for i := range o.Items {
			if err := check(&o.Items[i]); err != nil {
				return nil, fmt.Errorf("items[%d]: %w", i, err)
			}
			objects = append(objects, &o.Items[i])
		}
		return objects, nil
	case *unstructured.Unstructured:
		return []*unstructured.Unstructured{o}, check(o)
	}
	return nil, fmt.Errorf("%T is no object", parsed)
}

// check asks for what every object needs; the rest is the API server's.
func check(object *unstructured.Unstructured) error {
	switch {
	case object.GetAPIVersion() == "":
		return errors.New("apiVersion is missing")
	case object.GetKind() == "":
		return errors.New("kind is missing")
	case object.GetName() == "":
		return fmt.Errorf("%s without metadata.name", object.GetKind())
	}
	return nil
}
