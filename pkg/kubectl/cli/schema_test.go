package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/acllog"
	"github.com/weft-network/weft/pkg/install/rebuild"
	"github.com/weft-network/weft/pkg/kubectl/connectivity"
	"github.com/weft-network/weft/pkg/kubectl/lint"
	"github.com/weft-network/weft/pkg/process/admin"
	"github.com/weft-network/weft/pkg/trace/sketch"
)

// schemaFolder has a schema for each command with -o json.
const schemaFolder = "../../../docs/user/schemas"

// outputs are the types that commands write with -o json, by command. log writes one per line.
var outputs = map[string]reflect.Type{
	"status": reflect.TypeFor[statusReport](), "plan": reflect.TypeFor[admin.Changes](), "drift": reflect.TypeFor[admin.Changes](),
	"check": reflect.TypeFor[admin.Violations](), "history": reflect.TypeFor[admin.History](),
	"check connectivity": reflect.TypeFor[connectivity.Report](),
	"trace":              reflect.TypeFor[traceAnswer](), "why": reflect.TypeFor[whyAnswer](),
	"topology": reflect.TypeFor[sketch.Graph](), "lint": reflect.TypeFor[lintAnswer](), "log": reflect.TypeFor[loggedDecision](),
	"db rebuild": reflect.TypeFor[rebuild.Report](), "ip list": reflect.TypeFor[addressList](),
	"ip history": reflect.TypeFor[addressHistory](), "ip leaks": reflect.TypeFor[leaksAnswer](),
	"ip release": reflect.TypeFor[releaseAnswer](), "ip import": reflect.TypeFor[importAnswer](),
	"migrate inspect": reflect.TypeFor[inspectAnswer](),
}

// flatLeak is leak with exported types, because the generator skips embedded types that are not exported.
type flatLeak struct {
	Report
	Reason string `json:"reason"`
}

// flatHistory is addressHistory with exported types.
type flatHistory struct {
	Report
	History []networkv1alpha1.FloatingIPUse `json:"history"`
}

// flatOperator and flatAgent are components without the tag of their embedded type, for which the generator makes a property.
type flatOperator struct {
	networkv1alpha1.Component
	LogFormat      networkv1alpha1.LogFormat      `json:"logFormat,omitempty"`
	EgressIPProbes networkv1alpha1.EgressIPProbes `json:"egressIPProbes,omitempty,omitzero"`
}

type flatAgent struct {
	networkv1alpha1.Component
	LogFormat networkv1alpha1.LogFormat  `json:"logFormat,omitempty"`
	Delegates *bool                      `json:"delegates,omitempty"`
	Paths     networkv1alpha1.AgentPaths `json:"paths,omitempty,omitzero"`
}

// Report is addressReport.
type Report addressReport

// storedObject is an object of Weft's API. docs/user/api.md describes the kinds.
type storedObject struct{}

// Schema implements huma.SchemaProvider.
func (storedObject) Schema(huma.Registry) *huma.Schema {
	text, object := &huma.Schema{Type: "string"}, &huma.Schema{Type: "object"}
	return &huma.Schema{Type: "object", Description: "an object of Weft's API, as docs/user/api.md describes it",
		Required:   []string{"apiVersion", "kind", "metadata", "spec"},
		Properties: map[string]*huma.Schema{"apiVersion": text, "kind": text, "metadata": object, "spec": object}}
}

// schemaOf generates the schema of a command's answer. A strict schema allows only the properties that it names.
// Others allow further properties, so that a program that validates survives additions.
func schemaOf(t *testing.T, command string, strict bool) []byte {
	t.Helper()
	was := huma.DefaultArrayNullable
	huma.DefaultArrayNullable = false
	defer func() { huma.DefaultArrayNullable = was }()
	registry := huma.NewMapRegistry("#/$defs/", huma.DefaultSchemaNamer)
	registry.RegisterTypeAlias(reflect.TypeFor[leak](), reflect.TypeFor[flatLeak]())
	registry.RegisterTypeAlias(reflect.TypeFor[addressHistory](), reflect.TypeFor[flatHistory]())
	registry.RegisterTypeAlias(reflect.TypeFor[networkv1alpha1.OperatorComponent](), reflect.TypeFor[flatOperator]())
	registry.RegisterTypeAlias(reflect.TypeFor[networkv1alpha1.AgentComponent](), reflect.TypeFor[flatAgent]())
	for _, object := range []reflect.Type{reflect.TypeFor[networkv1alpha1.IPPool](), reflect.TypeFor[networkv1alpha1.FloatingIP]()} {
		registry.RegisterTypeAlias(object, reflect.TypeFor[storedObject]())
	}
	registry.RegisterTypeAlias(reflect.TypeFor[metav1.Duration](), reflect.TypeFor[durationText]())
	root := registry.Schema(outputs[command], true, "")
	text, err := json.Marshal(map[string]any{"$schema": "https://json-schema.org/draft/2020-12/schema",
		"title": "kubectl weft " + command + " -o json", "$ref": root.Ref, "$defs": registry.Map()})
	if err != nil {
		t.Fatal(err)
	}
	var schema map[string]any
	if err := json.Unmarshal(text, &schema); err != nil {
		t.Fatal(err)
	}
	if !strict {
		open(schema)
	}
	if text, err = json.MarshalIndent(schema, "", "  "); err != nil {
		t.Fatal(err)
	}
	return append(text, '\n')
}

// durationText is metav1.Duration, which is text in JSON ("1h0m0s").
type durationText struct{}

// Schema implements huma.SchemaProvider.
func (durationText) Schema(huma.Registry) *huma.Schema { return &huma.Schema{Type: "string"} }

// open removes the prohibitions of further properties.
func open(schema any) {
	switch s := schema.(type) {
	case map[string]any:
		if s["additionalProperties"] == false {
			delete(s, "additionalProperties")
		}
		for _, inner := range s {
			open(inner)
		}
	case []any:
		for _, inner := range s {
			open(inner)
		}
	}
}

// schemaFile is the path of a command's schema.
func schemaFile(command string) string {
	return filepath.Join(schemaFolder, strings.ReplaceAll(command, " ", "-")+".json")
}

// docs/user/schemas describes the answers of all commands with -o json. -update writes it.
func TestSchemasAreFresh(t *testing.T) {
	for command := range outputs {
		want := schemaOf(t, command, false)
		if *update {
			if err := os.WriteFile(schemaFile(command), want, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		have, err := os.ReadFile(schemaFile(command))
		if err != nil {
			t.Error(err)
		}
		if diff := cmp.Diff(string(want), string(have)); diff != "" {
			t.Errorf("%s is stale: go test ./pkg/kubectl/cli -run Schemas -update (-want +got):\n%s", schemaFile(command), diff)
		}
	}
	files, err := filepath.Glob(schemaFolder + "/*.json")
	if err != nil || len(files) != len(outputs) {
		t.Errorf("%d files of %d schemas, error %v", len(files), len(outputs), err)
	}
}

// Every command that offers JSON has a schema, and every schema has a command.
func TestEveryJSONHasASchema(t *testing.T) {
	offered := map[string]bool{}
	for _, c := range commands(newRoot(context.Background(), nil)) {
		if flag := c.Flags().Lookup("output"); flag != nil && strings.Contains(flag.Usage, "json") {
			offered[pathOf(c)] = true
		}
	}
	have, want := slices.Sorted(maps.Keys(outputs)), slices.Sorted(maps.Keys(offered))
	if !slices.Equal(have, want) {
		t.Errorf("schemas of %q, commands with -o json %q", have, want)
	}
}

// commands returns a command and all below it.
func commands(c *cobra.Command) []*cobra.Command {
	all := []*cobra.Command{c}
	for _, below := range c.Commands() {
		all = append(all, commands(below)...)
	}
	return all
}

// pathOf is the words of a command after the program's name.
func pathOf(c *cobra.Command) string {
	return strings.TrimPrefix(strings.TrimPrefix(c.CommandPath(), c.Root().Name()), " ")
}

// Answers with nothing and answers with everything are valid, and have no property that the schema does not name.
func TestAnswersAreValid(t *testing.T) {
	for command, output := range outputs {
		schema := compile(t, command, schemaOf(t, command, true))
		empty, full := reflect.New(output), reflect.New(output)
		fill(full.Elem(), 0)
		answers := map[string]any{"empty": empty.Interface(), "full": full.Interface()}
		if least := leastOf(t, command); least != nil {
			answers["empty"] = least
		}
		for name, answer := range answers {
			var out bytes.Buffer
			if err := formatJSON.write(&out, answer, nil); err != nil {
				t.Fatal(err)
			}
			if err := valid(schema, out.Bytes()); err != nil {
				t.Errorf("%s, %s: %v\n%s", command, name, err, out.String())
			}
		}
	}
}

// leastOf returns the smallest answer of a command whose zero value is no answer.
func leastOf(t *testing.T, command string) any {
	t.Helper()
	switch command {
	case "log":
		return loggedDecision{Decision: acllog.Decision{Source: netip.IPv6Loopback(), Destination: netip.IPv6Loopback()}}
	case "db rebuild":
		failed, _ := rebuild.Run(context.Background(), rebuild.Options{RunDir: t.TempDir() + "/none"}, nil)
		return failed
	case "topology":
		return sketch.Draw(sketch.Input{})
	case "check connectivity":
		return connectivity.NewReport("")
	case "trace":
		return traceAnswer{Findings: []traceFinding{}}
	case "lint":
		return lintAnswer{Findings: []lint.Finding{}}
	}
	return nil
}

// The recorded answers of an operator are valid. Without a required property they are not.
func TestRecordedAnswersAreValid(t *testing.T) {
	schema := compile(t, "plan", schemaOf(t, "plan", true))
	files, err := filepath.Glob("testdata/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("no answers in testdata: %v", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := valid(schema, text); err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
	for _, wrong := range []string{`{}`, `{"changes": null}`, `{"changes": [], "more": 1}`, `{"changes": [{"op": 1}]}`} {
		if valid(schema, []byte(wrong)) == nil {
			t.Errorf("%s is valid", wrong)
		}
	}
}

func compile(t *testing.T, command string, text []byte) *jsonschema.Schema {
	t.Helper()
	parsed, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	compiler, url := jsonschema.NewCompiler(), "https://weft.test/"+strings.ReplaceAll(command, " ", "-")
	compiler.AssertFormat()
	if err := compiler.AddResource(url, parsed); err != nil {
		t.Fatal(err)
	}
	schema, err := compiler.Compile(url)
	if err != nil {
		t.Fatal(err)
	}
	return schema
}

func valid(schema *jsonschema.Schema, text []byte) error {
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return err
	}
	return schema.Validate(value)
}

// maxDepth bounds recursive types.
const maxDepth = 12

// fill sets every exported field to a value that is not empty.
func fill(v reflect.Value, depth int) {
	if depth > maxDepth {
		return
	}
	switch v.Interface().(type) {
	case time.Time:
		v.Set(reflect.ValueOf(time.Unix(1900000000, 0).UTC()))
		return
	case metav1.Time:
		v.Set(reflect.ValueOf(metav1.Unix(1900000000, 0)))
		return
	case netip.Addr:
		v.Set(reflect.ValueOf(netip.MustParseAddr("192.0.2.1")))
		return
	case metav1.ObjectMeta:
		v.Set(reflect.ValueOf(metav1.ObjectMeta{Name: "a"}))
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString("a")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(1)
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(1)
	case reflect.Float32, reflect.Float64:
		v.SetFloat(1)
	default:
		fillInner(v, depth+1)
	}
}

// fillInner sets a value that has values in it.
func fillInner(v reflect.Value, depth int) {
	switch v.Kind() {
	case reflect.Pointer:
		if depth <= maxDepth {
			v.Set(reflect.New(v.Type().Elem()))
			fill(v.Elem(), depth)
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 0, 1))
		if depth <= maxDepth-2 { // the element and its fields
			element := reflect.New(v.Type().Elem()).Elem()
			fill(element, depth)
			v.Set(reflect.Append(v, element))
		}
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(key, depth)
		fill(value, depth)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	case reflect.Interface: // a value of an object of any kind
		v.Set(reflect.ValueOf("a"))
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Field(i); f.CanSet() {
				fill(f, depth)
			} else if v.Type().Field(i).Anonymous && f.Kind() == reflect.Struct {
				fillInner(f, depth) // its fields are exported
			}
		}
	default:
		panic(fmt.Sprintf("cannot fill a %s", v.Type()))
	}
}
