package migrate

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// fields is a tree of JSON values from which translators take what they understand. What is left has no counterpart.
type fields struct {
	path string
	left map[string]any
	// wrong lists fields whose values have an unexpected type. They count as left.
	wrong *[]Field
}

func newFields(path string, tree map[string]any) fields {
	return fields{path: path, left: tree, wrong: &[]Field{}}
}

// take removes a value and returns it. It is nil if the field is absent.
func (f fields) take(key string) any {
	value := f.left[key]
	delete(f.left, key)
	return value
}

func (f fields) at(key string) string {
	if f.path == "" {
		return key
	}
	return f.path + "." + key
}

// bad remembers a value that cannot be read.
func (f fields) bad(key string, value any, want string) {
	if value != nil {
		*f.wrong = append(*f.wrong, Field{Path: f.at(key), Message: fmt.Sprintf("%v is not %s", short(value), want), Lost: true})
	}
}

func (f fields) text(key string) string {
	value := f.take(key)
	text, ok := value.(string)
	if !ok {
		f.bad(key, value, "a string")
	}
	return text
}

func (f fields) flag(key string) bool {
	value := f.take(key)
	is, ok := value.(bool)
	if !ok {
		f.bad(key, value, "a boolean")
	}
	return is
}

func (f fields) number(key string) int64 {
	value := f.take(key)
	switch n := value.(type) {
	case int64:
		return n
	case float64:
		if n == float64(int64(n)) {
			return int64(n)
		}
	}
	f.bad(key, value, "a whole number")
	return 0
}

func (f fields) texts(key string) (list []string) {
	value := f.take(key)
	items, ok := value.([]any)
	if !ok {
		f.bad(key, value, "a list")
	}
	for i, item := range items {
		text, ok := item.(string)
		if !ok {
			f.bad(fmt.Sprintf("%s[%d]", key, i), item, "a string")
			continue
		}
		list = append(list, text)
	}
	return list
}

// inner returns the fields of a mapping, which are taken one by one. It is empty if the field is absent.
func (f fields) inner(key string) fields {
	value := f.left[key]
	tree, ok := value.(map[string]any)
	if !ok {
		f.bad(key, value, "a mapping")
		delete(f.left, key)
	}
	return fields{f.at(key), tree, f.wrong}
}

// has reports whether a field is there.
func (f fields) has(key string) bool { _, is := f.left[key]; return is }

// list returns the fields of each mapping of a list.
func (f fields) list(key string) (list []fields) {
	items, ok := f.left[key].([]any)
	if !ok {
		f.bad(key, f.left[key], "a list")
		delete(f.left, key)
	}
	for i, item := range items {
		tree, ok := item.(map[string]any)
		at := fmt.Sprintf("%s[%d]", key, i)
		if !ok {
			f.bad(at, item, "a mapping")
			continue
		}
		list = append(list, fields{f.at(at), tree, f.wrong})
	}
	return list
}

// selector takes a label selector. ok is false if the field is absent.
func (f fields) selector(key string) (s metav1.LabelSelector, ok bool) {
	value := f.take(key)
	if value == nil {
		return s, false
	}
	text, err := json.Marshal(value)
	if err == nil {
		decoder := json.NewDecoder(strings.NewReader(string(text)))
		decoder.DisallowUnknownFields()
		err = decoder.Decode(&s)
	}
	if err != nil {
		f.bad(key, value, "a label selector")
	}
	return s, true
}

// rest lists the fields that nobody took, leaf by leaf.
func (f fields) rest() (paths []string) {
	for _, key := range slices.Sorted(maps.Keys(f.left)) {
		paths = append(paths, leaves(f.at(key), f.left[key])...)
	}
	return paths
}

// leaves lists the paths below a value. Mappings and lists from which everything was taken have none.
func leaves(path string, value any) (paths []string) {
	switch v := value.(type) {
	case nil:
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			paths = append(paths, leaves(path+"."+key, v[key])...)
		}
	case []any:
		for i, item := range v {
			paths = append(paths, leaves(path+"["+strconv.Itoa(i)+"]", item)...)
		}
	default:
		paths = append(paths, path)
	}
	return paths
}

// short is a value as text of at most 60 bytes.
func short(value any) string {
	const most = 60
	text, err := json.Marshal(value)
	if err != nil {
		return fmt.Sprint(value)
	}
	if len(text) > most {
		return string(text[:most]) + "..."
	}
	return string(text)
}
