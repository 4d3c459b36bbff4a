package render

import (
	"reflect"

	"k8s.io/apimachinery/pkg/runtime"
)

// Differs reports whether a workload must be applied: it is absent (have is nil), the last applied version is
// another, or another program changed a field that Weft sets. Fields left to the API server's defaults do not count.
func Differs(want, have Workload) (bool, error) {
	if have == nil {
		return true, nil
	}
	if have.GetAnnotations()[AnnotationApplied] != want.GetAnnotations()[AnnotationApplied] {
		return true, nil
	}
	wanted, err := fields(want)
	if err != nil {
		return false, err
	}
	there, err := fields(have)
	return !covers(wanted, there), err
}

// fields returns the parts of a workload that Weft sets.
func fields(w Workload) (map[string]any, error) {
	all, err := runtime.DefaultUnstructuredConverter.ToUnstructured(w)
	if err != nil {
		return nil, err
	}
	metadata, _ := all["metadata"].(map[string]any)
	return map[string]any{"spec": all["spec"], "labels": metadata["labels"], "annotations": metadata["annotations"]}, nil
}

// covers reports whether have includes all of want. A list must have exactly the wanted length, because another
// container changes the workload.
func covers(want, have any) bool {
	switch want := want.(type) {
	case nil:
		return true
	case map[string]any:
		have, _ := have.(map[string]any)
		for key, value := range want {
			if !covers(value, have[key]) {
				return false
			}
		}
		return true
	case []any:
		have, _ := have.([]any)
		if len(have) != len(want) {
			return false
		}
		for i := range want {
			if !covers(want[i], have[i]) {
				return false
			}
		}
		return true
	}
	return reflect.DeepEqual(want, have)
}
