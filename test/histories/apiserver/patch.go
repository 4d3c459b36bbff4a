package apiserver

import (
	"encoding/json"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
)

// patch applies a merge patch, or a strategic patch to a Node or Pod. A resource version or UID in the patch is a
// precondition. Without the subresource the status does not change; with it only the status changes.
func (s *Server) patch(t target, format string, body []byte) (object, error) {
	changes, err := decode(body)
	if err != nil {
		return nil, err
	}
	return s.store.update(t.kind, t.name, func(o object) (object, error) {
		meta := changes.meta()
		for _, field := range []string{"resourceVersion", "uid"} {
			if want, ok := meta[field]; ok && want != o.meta()[field] {
				return nil, fmt.Errorf("%w: %s %s has %s %v, not %v", errConflict, t.kind.Resource, t.name, field, o.meta()[field], want)
			}
		}
		patched, err := apply(o, format, changes, body, t.kind.Kind)
		if err != nil {
			return nil, err
		}
		if t.kind.whole {
			return patched, nil
		}
		return subresource(o, patched, t.subresource), nil
	})
}

// put replaces an object. A resource version in the body is a precondition.
func (s *Server) put(t target, body []byte) (object, error) {
	replacement, err := decode(body)
	if err != nil {
		return nil, err
	}
	return s.store.update(t.kind, t.name, func(o object) (object, error) {
		want, had := replacement.meta(), o.meta()
		if version, ok := want["resourceVersion"]; ok && version != had["resourceVersion"] {
			return nil, fmt.Errorf("%w: %s %s has resourceVersion %v, not %v", errConflict, t.kind.Resource, t.name,
				had["resourceVersion"], version)
		}
		for _, field := range []string{"uid", "resourceVersion", "creationTimestamp", "generation"} {
			want[field] = had[field]
		}
		replacement["apiVersion"], replacement["kind"] = t.kind.APIVersion, t.kind.Kind
		if t.kind.whole {
			return replacement, nil
		}
		return subresource(o, replacement, t.subresource), nil
	})
}

func apply(o object, format string, changes object, body []byte, kindName string) (object, error) {
	if types.PatchType(format) != types.StrategicMergePatchType {
		return merge(o, changes).(map[string]any), nil
	}
	schemas := map[string]any{"Node": corev1.Node{}, "Pod": corev1.Pod{}}
	text, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	patched, err := strategicpatch.StrategicMergePatch(text, body, schemas[kindName])
	if err != nil {
		return nil, err
	}
	return decode(patched)
}

// merge is a JSON merge patch (RFC 7386).
func merge(have, changes any) any {
	fields, ok := asMap(changes)
	if !ok {
		return changes
	}
	merged := map[string]any{}
	if old, ok := asMap(have); ok {
		maps.Copy(merged, old)
	}
	for name, value := range fields {
		if value == nil {
			delete(merged, name)
		} else {
			merged[name] = merge(merged[name], value)
		}
	}
	return merged
}

func asMap(v any) (map[string]any, bool) {
	if o, ok := v.(object); ok {
		return o, true
	}
	m, ok := v.(map[string]any)
	return m, ok
}

// subresource copies what a write to the object, or to its status, may change.
func subresource(have, patched object, name string) object {
	if name == "status" {
		result := maps.Clone(have)
		if result["status"] = patched["status"]; patched["status"] == nil {
			delete(result, "status")
		}
		return result
	}
	if patched["status"] = have["status"]; have["status"] == nil {
		delete(patched, "status")
	}
	return patched
}
