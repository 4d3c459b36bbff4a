package apidocs

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const root = "../.."

func TestPageIsFresh(t *testing.T) {
	want, err := Generate(root)
	if err != nil {
		t.Fatal(err)
	}
	have, err := os.ReadFile(filepath.Join(root, Page))
	if err != nil {
		t.Fatal(err)
	}
	if string(have) != string(want) {
		t.Errorf("%s is stale: run make generate", Page)
	}
}

// Every kind of the CRDs has a section, so that a new kind is not forgotten.
func TestEveryKindHasASection(t *testing.T) {
	all, err := readKinds(filepath.Join(root, "config/crd/bases"))
	if err != nil {
		t.Fatal(err)
	}
	text, err := Generate(root)
	if err != nil {
		t.Fatal(err)
	}
	for name := range all {
		if !strings.Contains(string(text), "\n## "+name+"\n") {
			t.Errorf("page.tmpl has no section of %s", name)
		}
	}
}

func TestFieldsSayWhatTheyTake(t *testing.T) {
	one, nine := 1.0, 9.0
	two := int64(2)
	for want, field := range map[string]*schema{
		"- **`spec.a`** (int32; 1 to 9)\n": {Type: "integer", Format: "int32",
			Minimum: &one, Maximum: &nine},
		"- **`spec.a`** (list of string; at most 2 items; each pattern `a`)\n": {Type: "array", MaxItems: &two,
			Items: &schema{Type: "string", Pattern: "a"}},
		"- **`spec.a`** (`X`, `Y`; default `X`)\n": {Type: "string", Enum: []any{"X", "Y"}, Default: "X"},
		"- **`spec.a`** (string)\n  a is a field.\n  - a must be b\n": {Type: "string",
			Description: "a is\na field", Validations: []validation{{"r", "a must be b"}}},
		"- **`spec.a`** (object)\n- **`spec.a.b`** (string; required)\n": {Type: "object",
			Required: []string{"b"}, Properties: map[string]*schema{"b": {Type: "string"}}},
	} {
		var b strings.Builder
		writeField(&b, &schema{}, field, "spec.a", false)
		if b.String() != want {
			t.Errorf("have %q, want %q", b.String(), want)
		}
	}
}

func TestReasonsNameValues(t *testing.T) {
	all := constants{{"ConditionReady", "Ready", "ConditionReady sums up all others.\n"}, {"ReasonX", "X", "ReasonX: of\nConditionReady."}}
	if have, want := all.render("Reason"), "- **`X`**: of `Ready`."; have != want {
		t.Errorf("have %q, want %q", have, want)
	}
}
