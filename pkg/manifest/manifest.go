// Package manifest reads Kubernetes objects from files as kubectl does: YAML or JSON, several documents, and lists.
package manifest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// peekSize is the number of bytes that distinguish JSON from YAML.
const peekSize = 4096

// Document is one object and its source.
type Document struct {
	// Source is the file, Number the document in it, from 1. The items of a list have the list's number.
	Source string
	Number int
	Object *unstructured.Unstructured
}

// String identifies the document: "web.yaml, document 2 (Pod demo/web-0)".
func (d Document) String() string {
	name := d.Object.GetName()
	if namespace := d.Object.GetNamespace(); namespace != "" {
		name = namespace + "/" + name
	}
	return fmt.Sprintf("%s (%s %s)", place(d.Source, d.Number), d.Object.GetKind(), name)
}

func place(source string, number int) string { return fmt.Sprintf("%s, document %d", source, number) }

// Read returns the objects of a stream in order. It skips empty documents. An error names the document.
func Read(source string, from io.Reader) ([]Document, error) {
	decoder := yaml.NewYAMLOrJSONDecoder(from, peekSize)
	var found []Document
	for number := 1; ; number++ {
		var text runtime.RawExtension
		err := decoder.Decode(&text)
		if errors.Is(err, io.EOF) {
			return found, nil
		}
		var objects []*unstructured.Unstructured
		if err != nil {
			err = fmt.Errorf("cannot be read as YAML or JSON: %w", err)
		} else {
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
	if err := checkShape(text); err != nil {
		return nil, err
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
	return nil, fmt.Errorf("%T is not an object", parsed)
}

// check verifies the fields that every object needs. The API server checks the rest.
func check(object *unstructured.Unstructured) error {
	for _, field := range [][]string{{"apiVersion"}, {"kind"}, {"metadata", "name"}} {
		if _, _, err := unstructured.NestedString(object.Object, field...); err != nil {
			return fmt.Errorf("%s is not a string", strings.Join(field, "."))
		}
	}
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

// checkShape returns an error for a document that is not a Kubernetes object or a list of objects. It exists because
// the decoder's errors name types of Go.
func checkShape(text []byte) error {
	var document any
	if err := json.Unmarshal(text, &document); err != nil {
		return fmt.Errorf("cannot be read as YAML or JSON: %w", err)
	}
	object, ok := document.(map[string]any)
	if !ok {
		return fmt.Errorf("%s is not a Kubernetes object: it needs the fields apiVersion, kind and metadata.name", shape(document))
	}
	if kind, ok := object["kind"]; !ok || kind == "" {
		return errors.New("kind is missing")
	} else if _, ok := kind.(string); !ok {
		return fmt.Errorf("kind is %s, not a string", shape(kind))
	}
	list := object["items"]
	if list == nil {
		return nil
	}
	items, ok := list.([]any)
	if !ok {
		return fmt.Errorf("items is %s, not a list", shape(list))
	}
	for i, item := range items {
		if _, ok := item.(map[string]any); !ok {
			return fmt.Errorf("items[%d]: %s is not a Kubernetes object", i, shape(item))
		}
	}
	return nil
}

// shape returns the type of a JSON value in words.
func shape(value any) string {
	switch value.(type) {
	case nil:
		return "null"
	case string:
		return "a string"
	case bool:
		return "a boolean"
	case []any:
		return "a list"
	case map[string]any:
		return "a mapping"
	}
	return "a number"
}
