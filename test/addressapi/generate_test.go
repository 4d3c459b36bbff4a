package addressapi

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// memory has the values of the properties of earlier responses, by name, so that requests are about objects that exist.
type memory map[string][]string

// learn remembers the texts in a value of a response.
func (m memory) learn(value any) {
	switch value := value.(type) {
	case []any:
		for _, v := range value {
			m.learn(v)
		}
	case map[string]any:
		for name, v := range value {
			switch name {
			case "holder", "history": // workloads have other names than pools
				continue
			case "next":
				name = "cursor"
			}
			if text, ok := v.(string); ok && !slices.Contains(m[name], text) {
				m[name] = append(m[name], text)
				if len(m[name]) > 50 {
					m[name] = m[name][1:]
				}
				continue
			}
			m.learn(v)
		}
	}
}

// generator draws values that a schema permits.
type generator struct {
	*document
	memory
}

func number(s schema, key string, otherwise int) int {
	if n, ok := s[key].(float64); ok {
		return int(n)
	}
	return otherwise
}

// value draws a value of the schema. name is the property or parameter that it is for.
func (g generator) value(t *rapid.T, name string, s schema) any {
	s = g.resolve(s)
	if choices, ok := s["enum"].([]any); ok {
		return rapid.SampledFrom(choices).Draw(t, name)
	}
	switch s["type"] {
	case "object":
		return g.object(t, s)
	case "array":
		least := number(s, "minItems", 0)
		items := []any{}
		for range rapid.IntRange(least, min(least+3, number(s, "maxItems", least+3))).Draw(t, name+" length") {
			items = append(items, g.value(t, name, s["items"].(schema)))
		}
		return items
	case "integer":
		least := number(s, "minimum", -1000)
		return rapid.IntRange(least, min(least+20, number(s, "maximum", least+20))).Draw(t, name)
	case "boolean":
		return rapid.Bool().Draw(t, name)
	case "string":
		return g.text(t, name, s)
	}
	panic(fmt.Sprintf("%s: no values of type %v are generated", name, s["type"]))
}

func (g generator) object(t *rapid.T, s schema) any {
	object := map[string]any{}
	required, _ := s["required"].([]any)
	properties, _ := s["properties"].(map[string]any)
	for _, name := range sortedKeys(properties) {
		if slices.Contains(required, any(name)) || rapid.Bool().Draw(t, "has "+name) {
			object[name] = g.value(t, name, properties[name].(schema))
		}
	}
	if further, ok := s["additionalProperties"].(schema); ok {
		for range rapid.IntRange(0, 3).Draw(t, "properties") {
			object[rapid.StringMatching(`[a-z./~ ]{1,12}`).Draw(t, "key")] = g.value(t, "value", further)
		}
	}
	return object
}

func (g generator) text(t *rapid.T, name string, s schema) string {
	if known := g.memory[name]; len(known) > 0 && rapid.IntRange(0, 9).Draw(t, "known") > 1 {
		if text := rapid.SampledFrom(known).Draw(t, name); utf8.RuneCountInString(text) >= number(s, "minLength", 0) {
			return text
		}
	}
	if examples, ok := s["examples"].([]any); ok && rapid.Bool().Draw(t, "example") {
		return rapid.SampledFrom(examples).Draw(t, name).(string)
	}
	longest := number(s, "maxLength", 40)
	switch {
	case s["format"] == "ip":
		if rapid.Bool().Draw(t, "IPv4") {
			return netip.AddrFrom4([4]byte(rapid.SliceOfN(rapid.Byte(), 4, 4).Draw(t, name))).String()
		}
		return netip.AddrFrom16([16]byte(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, name))).String()
	case s["pattern"] != nil:
		text := rapid.StringMatching(s["pattern"].(string)).Draw(t, name)
		return strings.TrimRight(text[:min(len(text), longest)], "-.")
	}
	least := number(s, "minLength", 0)
	return rapid.StringN(least, min(least+12, longest), -1).Draw(t, name)
}

func sortedKeys(m map[string]any) []string {
	keys := make([]string, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

// wrong is a text that a parameter of a schema does not permit, or a change of a body.
type wrong struct {
	what, where string
	text        string
	body        any
}

// wrongTexts returns texts that a parameter does not permit.
func wrongTexts(p parameter) (all []wrong) {
	add := func(what, text string) { all = append(all, wrong{what: what, where: p.name, text: text}) }
	if longest := number(p.schema, "maxLength", 0); longest > 0 {
		add("too long", strings.Repeat("a", longest+1))
	}
	if p.schema["enum"] != nil {
		add("not in the enumeration", "nonsense")
	}
	if p.schema["format"] == "ip" {
		add("no address", "192.0.2.256")
		add("no address", "2001:db8::/64")
	}
	if p.schema["pattern"] != nil {
		add("not of the pattern", "Upper_")
		add("not of the pattern", "a/b")
	}
	if p.schema["type"] == "integer" {
		add("no number", "many")
		add("a fraction", "1.5")
		add("too small", strconv.Itoa(number(p.schema, "minimum", 0)-1))
		add("too large", strconv.Itoa(number(p.schema, "maximum", 0)+1))
		add("far too large", "99999999999999999999")
	}
	return all
}

// wrongBodies returns bodies that differ from a valid one in one place.
func (g generator) wrongBodies(s schema, body any) (all []wrong) {
	g.spoil(s, body, "#", func(v any) any { return v }, &all)
	return all
}

// spoil adds the changes of a value and of what is in it. put returns the whole body with another value in its place.
func (g generator) spoil(s schema, value any, where string, put func(any) any, all *[]wrong) {
	s = g.resolve(s)
	add := func(what, where string, v any) { *all = append(*all, wrong{what: what, where: where, body: put(v)}) }
	switch value := value.(type) {
	case map[string]any:
		add("no object", where, "text")
		g.spoilObject(s, value, where, put, all)
	case []any:
		add("no list", where, map[string]any{"a": 1})
		if number(s, "minItems", 0) > 0 {
			add("too short", where, []any{})
		}
		if most, ok := s["maxItems"].(float64); ok && len(value) > 0 {
			add("too long", where, slices.Repeat(value[:1], int(most)+1))
		}
		for i := range value {
			g.spoil(s["items"].(schema), value[i], fmt.Sprintf("%s/%d", where, i), func(v any) any {
				other := slices.Clone(value)
				other[i] = v
				return put(other)
			}, all)
		}
	case int:
		add("no number", where, "7")
		add("a fraction", where, 1.5)
		add("too small", where, number(s, "minimum", 0)-1)
		add("too large", where, number(s, "maximum", 0)+1)
	case string:
		add("no text", where, 7)
		add("no text", where, []any{"a"})
		if s["enum"] != nil || s["format"] == "ip" || s["pattern"] != nil {
			add("another text", where, "No such_value")
		}
		if longest := number(s, "maxLength", 0); longest > 0 {
			add("too long", where, strings.Repeat("a", longest+1))
		}
		if number(s, "minLength", 0) > 0 {
			add("empty", where, "")
		}
	}
}

func (g generator) spoilObject(s schema, value map[string]any, where string, put func(any) any, all *[]wrong) {
	with := func(name string, v any) any {
		other := map[string]any{}
		for key := range value {
			other[key] = value[key]
		}
		if other[name] = v; v == nil {
			delete(other, name)
		}
		return put(other)
	}
	further, _ := s["additionalProperties"].(schema)
	if further == nil {
		*all = append(*all, wrong{what: "unknown", where: where + "/un~1known.x", body: with("un/known.x", "x")})
	}
	required, _ := s["required"].([]any)
	for _, name := range required {
		*all = append(*all, wrong{what: "missing", where: where + "/" + name.(string), body: with(name.(string), nil)})
	}
	properties, _ := s["properties"].(map[string]any)
	for _, name := range sortedKeys(value) {
		inner, ok := properties[name].(schema)
		if !ok {
			inner = further
		}
		at := where + "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
		g.spoil(inner, value[name], at, func(v any) any { return with(name, v) }, all)
	}
}
