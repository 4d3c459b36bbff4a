package bundle

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"

	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// Descriptors that define how a console shows a field.
const (
	control           = "urn:alm:descriptor:com.tectonic.ui:"
	conditionsControl = "urn:alm:descriptor:io.kubernetes.conditions"
)

// field is a field of a CRD's schema, at a path such as gateway.overrides[0].mode.
type field struct {
	path   string
	schema apiextensionsv1.JSONSchemaProps
}

// describe copies the CRD's descriptions. A field without a docstring is an error, because its name alone explains
// nothing.
func describe(d *v1alpha1.CRDDescription, crd *apiextensionsv1.CustomResourceDefinition) error {
	if len(crd.Spec.Versions) != 1 {
		return fmt.Errorf("%d versions, want 1", len(crd.Spec.Versions))
	}
	version := crd.Spec.Versions[0]
	d.Kind, d.Version = crd.Spec.Names.Kind, version.Name
	d.Description = prose(version.Schema.OpenAPIV3Schema.Description)
	for _, f := range fields("", version.Schema.OpenAPIV3Schema.Properties["spec"]) {
		if f.schema.Description == "" {
			return fmt.Errorf("spec.%s has no docstring", f.path)
		}
		d.SpecDescriptors = append(d.SpecDescriptors, v1alpha1.SpecDescriptor{
			Path: f.path, DisplayName: displayName(f.path), Description: prose(f.schema.Description), XDescriptors: inputs(f.schema)})
	}
	for _, f := range fields("", version.Schema.OpenAPIV3Schema.Properties["status"]) {
		if f.schema.Description == "" {
			return fmt.Errorf("status.%s has no docstring", f.path)
		}
		d.StatusDescriptors = append(d.StatusDescriptors, v1alpha1.StatusDescriptor{
			Path: f.path, DisplayName: displayName(f.path), Description: prose(f.schema.Description), XDescriptors: outputs(f)})
	}
	return nil
}

// fields lists the fields of an object, each followed by its own fields. It does not list fields within Kubernetes'
// types, conditions and label selectors, which Kubernetes documents.
func fields(path string, schema apiextensionsv1.JSONSchemaProps) (found []field) {
	for schema.Type == "array" && schema.Items != nil {
		schema, path = *schema.Items.Schema, path+"[0]"
	}
	if _, selector := schema.Properties["matchLabels"]; selector || strings.HasPrefix(path, "conditions[") {
		return nil
	}
	if path != "" {
		path += "."
	}
	for _, name := range slices.Sorted(maps.Keys(schema.Properties)) {
		found = append(found, field{path + name, schema.Properties[name]})
		found = append(found, fields(path+name, schema.Properties[name])...)
	}
	return found
}

// inputs returns the controls to set a field.
func inputs(schema apiextensionsv1.JSONSchemaProps) (list []string) {
	for _, value := range schema.Enum {
		list = append(list, control+"select:"+strings.Trim(string(value.Raw), `"`))
	}
	switch {
	case len(list) > 0:
		return list
	case schema.Type == "integer":
		return []string{control + "number"}
	case schema.Type == "boolean":
		return []string{control + "booleanSwitch"}
	case schema.Type == "string":
		return []string{control + "text"}
	}
	return nil
}

func outputs(f field) []string {
	switch {
	case f.path == "conditions":
		return []string{conditionsControl}
	case f.schema.Type == "string" || f.schema.Type == "integer":
		return []string{"urn:alm:descriptor:text"}
	}
	return nil
}

// abbreviations keep their capitals.
var abbreviations = map[string]string{"cidr": "CIDR", "dns": "DNS", "id": "ID", "ip": "IP", "ips": "IPs",
	"mac": "MAC", "mtu": "MTU", "ovn": "OVN",
	"ovs": "OVS", "snat": "SNAT", "cidrs": "CIDRs"}

// displayName converts a path to words: "gateway.overrides[0].nextHops" becomes "Gateway Overrides Next Hops".
func displayName(path string) string {
	var words []string
	for _, name := range strings.Split(strings.ReplaceAll(path, "[0]", ""), ".") {
		words = append(words, split(name)...)
	}
	for i, word := range words {
		if short, ok := abbreviations[strings.ToLower(word)]; ok {
			words[i] = short
		} else {
			words[i] = strings.ToUpper(word[:1]) + word[1:]
		}
	}
	return strings.Join(words, " ")
}

// split splits a field's name into words: at a capital after a small letter, and before the last of several capitals
// that begins a word.
func split(name string) (words []string) {
	runes := []rune(name)
	start := 0
	for i := 1; i < len(runes); i++ {
		begins := unicode.IsUpper(runes[i]) && unicode.IsLower(runes[i-1])
		ends := i+2 < len(runes) && unicode.IsUpper(runes[i-1]) && unicode.IsUpper(runes[i]) && unicode.IsLower(runes[i+1])
		if begins || ends {
			words = append(words, string(runes[start:i]))
			start = i
		}
	}
	return append(words, string(runes[start:]))
}

// prose joins the lines of a docstring into paragraphs.
func prose(text string) string {
	paragraphs := strings.Split(text, "\n\n")
	for i, p := range paragraphs {
		paragraphs[i] = strings.Join(strings.Fields(p), " ")
	}
	return strings.Join(paragraphs, "\n\n")
}
