package cniconfig

import (
	"bytes"
	"encoding/json"
	"reflect"
)

// chained returns the plugins beside weft-cni in a configuration list. Service meshes add theirs to the list that they
// find, and again whenever it is gone. A text that is no list has none.
func chained(text []byte) (plugins []any) {
	var list struct{ Plugins []map[string]any }
	if decode(text, &list) != nil {
		return nil
	}
	for _, plugin := range list.Plugins {
		if name, _ := plugin["type"].(string); name != "" && name != pluginName {
			plugins = append(plugins, plugin)
		}
	}
	return plugins
}

// sameMeaning reports whether two texts are the same JSON, whatever the order of their keys and the spaces between.
func sameMeaning(a, b []byte) bool {
	var first, second any
	return decode(a, &first) == nil && decode(b, &second) == nil && reflect.DeepEqual(first, second)
}

// decode keeps numbers as they are written, because another plugin's may have more digits than a float64.
func decode(text []byte, into any) error {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	return decoder.Decode(into)
}
