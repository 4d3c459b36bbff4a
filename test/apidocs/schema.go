package apidocs

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// crd is what the page needs of a CustomResourceDefinition.
type crd struct {
	Spec struct {
		Names struct {
			Kind       string   `json:"kind"`
			Plural     string   `json:"plural"`
			ShortNames []string `json:"shortNames"`
		} `json:"names"`
		Scope    string `json:"scope"`
		Versions []struct {
			Schema struct {
				OpenAPI schema `json:"openAPIV3Schema"`
			} `json:"schema"`
		} `json:"versions"`
	} `json:"spec"`
}

// schema is the part of an OpenAPI schema that controller-gen writes.
type schema struct {
	Type                 string             `json:"type,omitempty"`
	Format               string             `json:"format,omitempty"`
	Description          string             `json:"description,omitempty"`
	Default              any                `json:"default,omitempty"`
	Enum                 []any              `json:"enum,omitempty"`
	Pattern              string             `json:"pattern,omitempty"`
	Minimum              *float64           `json:"minimum,omitempty"`
	Maximum              *float64           `json:"maximum,omitempty"`
	MinLength            *int64             `json:"minLength,omitempty"`
	MaxLength            *int64             `json:"maxLength,omitempty"`
	MinItems             *int64             `json:"minItems,omitempty"`
	MaxItems             *int64             `json:"maxItems,omitempty"`
	Required             []string           `json:"required,omitempty"`
	Properties           map[string]*schema `json:"properties,omitempty"`
	Items                *schema            `json:"items,omitempty"`
	AdditionalProperties *schema            `json:"additionalProperties,omitempty"`
	ListType             string             `json:"x-kubernetes-list-type,omitempty"`
	ListMapKeys          []string           `json:"x-kubernetes-list-map-keys,omitempty"`
	Validations          []validation       `json:"x-kubernetes-validations,omitempty"`
}

// validation is a CEL rule; its message says what it requires.
type validation struct {
	Rule    string `json:"rule"`
	Message string `json:"message"`
}

// kinds are the CRDs by kind.
type kinds map[string]crd

func readKinds(dir string) (kinds, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("no CRD in %s", dir)
	}
	found := kinds{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		var c crd
		if err := yaml.Unmarshal(text, &c); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		if len(c.Spec.Versions) != 1 {
			return nil, fmt.Errorf("%s has %d versions; the page has one", file, len(c.Spec.Versions))
		}
		found[c.Spec.Names.Kind] = c
	}
	return found, nil
}

// render writes a kind: its description, its validations as a whole, and the fields of spec and status.
func (k kinds) render(name string) (string, error) {
	c, ok := k[name]
	if !ok {
		return "", fmt.Errorf("no CRD of kind %s", name)
	}
	var b strings.Builder
	names := c.Spec.Names
	object := &c.Spec.Versions[0].Schema.OpenAPI
	fmt.Fprintf(&b, "%s\n\n", wrap(sentence(object.Description), ""))
	fmt.Fprintf(&b, "- scope: %s\n- resource: %s", strings.ToLower(c.Spec.Scope), code(names.Plural))
	for _, short := range names.ShortNames {
		fmt.Fprintf(&b, ", %s", code(short))
	}
	b.WriteString("\n\n")
	writeValidations(&b, object, "")
	for _, part := range []string{"spec", "status"} {
		if property := object.Properties[part]; property != nil {
			fmt.Fprintf(&b, "### %s: %s\n\n", name, part)
			if property.Description != "" {
				fmt.Fprintf(&b, "%s\n\n", wrap(sentence(property.Description), ""))
			}
			writeValidations(&b, property, "")
			writeFields(&b, object, property, part)
			b.WriteString("\n")
		}
	}
	return strings.TrimRight(b.String(), "\n"), nil
}

// writeFields writes the fields of an object, each followed by its own fields.
func writeFields(b *strings.Builder, root, object *schema, path string) {
	names := []string{}
	for name := range object.Properties {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, c string) int {
		if ra, rc := slices.Contains(object.Required, a), slices.Contains(object.Required, c); ra != rc {
			return map[bool]int{true: -1, false: 1}[ra]
		}
		return strings.Compare(a, c)
	})
	for _, name := range names {
		writeField(b, root, object.Properties[name], path+"."+name, slices.Contains(object.Required, name))
	}
}

func writeField(b *strings.Builder, root, field *schema, path string, required bool) {
	facts := []string{typeOf(field)}
	switch {
	case required && strings.HasPrefix(path, "spec"):
		facts = append(facts, "required")
	case field.Default != nil && !isEmpty(field.Default):
		text, _ := json.Marshal(field.Default)
		facts = append(facts, "default "+code(strings.Trim(string(text), `"`)))
	}
	facts = append(facts, limits(field)...)
	fmt.Fprintf(b, "- **`%s`** (%s)\n", path, strings.Join(facts, "; "))
	if text := sentence(field.Description); text != "" {
		b.WriteString(wrap(text, "  ") + "\n")
	}
	below := field
	for below.Items != nil {
		below, path = below.Items, path+"[]"
	}
	switch {
	case isCondition(below) || isSelector(below):
		writeAllValidations(b, field)
	case path == "status.computed" && sameFields(below, root.Properties["spec"]):
		b.WriteString("  Its fields are `spec`'s.\n")
	default:
		writeValidations(b, field, "  ")
		if below != field {
			writeValidations(b, below, "  ")
		}
		writeFields(b, root, below, path)
	}
}

// writeAllValidations writes the rules of a field and of everything below it, for a field whose parts are not listed.
func writeAllValidations(b *strings.Builder, field *schema) {
	writeValidations(b, field, "  ")
	if field.Items != nil {
		writeAllValidations(b, field.Items)
	}
	names := []string{}
	for name := range field.Properties {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		writeAllValidations(b, field.Properties[name])
	}
}

// writeValidations writes the messages with which the API server refuses a value. Without indent they are a list of their own.
func writeValidations(b *strings.Builder, field *schema, indent string) {
	if len(field.Validations) == 0 {
		return
	}
	if indent == "" {
		b.WriteString("The API server's messages when it refuses the whole:\n\n")
	}
	for _, v := range field.Validations {
		text := v.Message
		if text == "" {
			text = code(v.Rule)
		}
		b.WriteString(indent + "- " + strings.TrimLeft(wrap(text, indent+"  "), " ") + "\n")
	}
	if indent == "" {
		b.WriteString("\n")
	}
}

// typeOf names a field's type as Go's reader of YAML does: string, int32, list of string, map of string, object.
func typeOf(s *schema) string {
	switch {
	case isSelector(s):
		return "label selector"
	case isCondition(s):
		return "condition"
	case s.Items != nil && isCondition(s.Items):
		return "list of conditions"
	case s.Items != nil:
		return "list of " + typeOf(s.Items)
	case s.AdditionalProperties != nil:
		return "map of " + typeOf(s.AdditionalProperties)
	case len(s.Enum) > 0:
		values := []string{}
		for _, value := range s.Enum {
			values = append(values, code(value))
		}
		return strings.Join(values, ", ")
	case s.Format != "":
		return s.Format
	case s.Type == "":
		return "any"
	}
	return s.Type
}

// limits lists what the schema itself checks, without the CEL rules.
func limits(s *schema) (found []string) {
	between := func(low, high *float64, what string) {
		switch {
		case low != nil && high != nil:
			found = append(found, fmt.Sprintf("%v to %v%s", *low, *high, what))
		case low != nil:
			found = append(found, fmt.Sprintf("at least %v%s", *low, what))
		case high != nil:
			found = append(found, fmt.Sprintf("at most %v%s", *high, what))
		}
	}
	real := func(n *int64) *float64 {
		if n == nil {
			return nil
		}
		f := float64(*n)
		return &f
	}
	between(s.Minimum, s.Maximum, "")
	between(real(s.MinItems), real(s.MaxItems), " items")
	between(real(s.MinLength), real(s.MaxLength), " bytes")
	if s.Pattern != "" {
		found = append(found, "pattern "+code(s.Pattern))
	}
	if len(s.ListMapKeys) > 0 {
		keys := []string{}
		for _, key := range s.ListMapKeys {
			keys = append(keys, code(key))
		}
		found = append(found, "one for each "+strings.Join(keys, " and "))
	}
	if s.ListType == "set" {
		found = append(found, "no value twice")
	}
	if s.Items != nil {
		found = append(found, each(limits(s.Items))...)
	}
	return found
}

func each(limits []string) (all []string) {
	for _, limit := range limits {
		all = append(all, "each "+limit)
	}
	return all
}

// isEmpty reports whether a default is {}: it only has the API server fill in the defaults below.
func isEmpty(value any) bool {
	object, ok := value.(map[string]any)
	return ok && len(object) == 0
}

func isSelector(s *schema) bool {
	return s.Properties["matchLabels"] != nil && s.Properties["matchExpressions"] != nil
}

func isCondition(s *schema) bool {
	return s.Properties["lastTransitionTime"] != nil && s.Properties["reason"] != nil
}

// sameFields reports whether two objects have fields of the same names.
func sameFields(a, b *schema) bool {
	if b == nil || len(a.Properties) != len(b.Properties) || len(a.Properties) == 0 {
		return false
	}
	for name := range a.Properties {
		if b.Properties[name] == nil {
			return false
		}
	}
	return true
}
