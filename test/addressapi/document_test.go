package addressapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// schema is a JSON Schema.
type schema = map[string]any

// document is the OpenAPI document that the API serves, read by a JSON Schema library that shares no code with the
// library that wrote it.
type document struct {
	root       map[string]any
	compiler   *jsonschema.Compiler
	compiled   map[string]*jsonschema.Schema
	operations []operation
}

// operation is an operation of the document.
type operation struct {
	method, path, id string
	parameters       []parameter
	body             schema // nil: none
	responses        map[string]any
}

// parameter is a parameter in the path or the query.
type parameter struct {
	name, in string
	required bool
	schema   schema
}

const documentURL = "https://weft.test/openapi.json"

// readDocument parses the served document.
func readDocument(text []byte) (*document, error) {
	parsed, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	d := &document{compiler: jsonschema.NewCompiler(), compiled: map[string]*jsonschema.Schema{}}
	d.compiler.AssertFormat()
	d.compiler.RegisterFormat(&jsonschema.Format{Name: "ip", Validate: func(v any) error {
		if text, ok := v.(string); ok {
			_, err := netip.ParseAddr(text)
			return err
		}
		return nil
	}})
	if err := d.compiler.AddResource(documentURL, parsed); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(text, &d.root); err != nil {
		return nil, err
	}
	for path, item := range d.root["paths"].(map[string]any) {
		for method, o := range item.(map[string]any) {
			d.operations = append(d.operations, d.operation(strings.ToUpper(method), path, o.(map[string]any)))
		}
	}
	slices.SortFunc(d.operations, func(a, b operation) int { return strings.Compare(a.id, b.id) })
	return d, nil
}

func (d *document) operation(method, path string, o map[string]any) operation {
	op := operation{method: method, path: path, id: o["operationId"].(string), responses: o["responses"].(map[string]any)}
	parameters, _ := o["parameters"].([]any)
	for _, p := range parameters {
		p := p.(map[string]any)
		required, _ := p["required"].(bool)
		op.parameters = append(op.parameters, parameter{p["name"].(string), p["in"].(string), required, p["schema"].(schema)})
	}
	if body, ok := o["requestBody"].(map[string]any); ok {
		op.body = body["content"].(map[string]any)["application/json"].(map[string]any)["schema"].(schema)
	}
	return op
}

// resolve follows a reference.
func (d *document) resolve(s schema) schema {
	for {
		reference, ok := s["$ref"].(string)
		if !ok {
			return s
		}
		at := any(d.root)
		for _, token := range strings.Split(strings.TrimPrefix(reference, "#/"), "/") {
			at = at.(map[string]any)[token]
		}
		s = at.(schema)
	}
}

// at returns the compiled schema at a JSON pointer of the document.
func (d *document) at(tokens ...string) (*jsonschema.Schema, error) {
	pointer := documentURL + "#"
	for _, token := range tokens {
		escaped := strings.NewReplacer("~", "~0", "/", "~1").Replace(token)
		pointer += "/" + strings.NewReplacer("{", "%7B", "}", "%7D").Replace(escaped)
	}
	if d.compiled[pointer] == nil {
		compiled, err := d.compiler.Compile(pointer)
		if err != nil {
			return nil, err
		}
		d.compiled[pointer] = compiled
	}
	return d.compiled[pointer], nil
}

// check returns how a response differs from what the document says of the operation.
func (d *document) check(op operation, r response) error {
	status := fmt.Sprint(r.status)
	documented, ok := op.responses[status].(map[string]any)
	if !ok {
		return fmt.Errorf("%s: status %s is not documented: %s", op.id, status, r.text)
	}
	if r.status >= http.StatusInternalServerError {
		return fmt.Errorf("%s: status %s: %s", op.id, status, r.text)
	}
	content, _ := documented["content"].(map[string]any)
	if content == nil {
		if len(r.text) > 0 {
			return fmt.Errorf("%s: status %s has a body: %s", op.id, status, r.text)
		}
		return nil
	}
	kind := r.header.Get("Content-Type")
	if content[kind] == nil {
		return fmt.Errorf("%s: status %s has the content type %s", op.id, status, kind)
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(r.text))
	if err != nil {
		return fmt.Errorf("%s: status %s: %w: %s", op.id, status, err, r.text)
	}
	compiled, err := d.at("paths", op.path, strings.ToLower(op.method), "responses", status, "content", kind, "schema")
	if err != nil {
		return err
	}
	if err := compiled.Validate(value); err != nil {
		return fmt.Errorf("%s: status %s: the body is not of the schema: %w: %s", op.id, status, err, r.text)
	}
	return nil
}

// permits reports whether the document permits a body.
func (d *document) permits(op operation, body any) (bool, error) {
	compiled, err := d.at("paths", op.path, strings.ToLower(op.method), "requestBody", "content", "application/json", "schema")
	if err != nil {
		return false, err
	}
	text, err := json.Marshal(body)
	if err != nil {
		return false, err
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	return compiled.Validate(value) == nil, err
}
