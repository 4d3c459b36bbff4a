package operand

import (
	"reflect"

	"k8s.io/apimachinery/pkg/runtime"
)

// Differs tells whether a workload has to be applied: it is not there (nil), something else was applied last, or somebody has changed a field of ours.
// Fields that we leave to the API server's defaults do not count.
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

// fields are those that we may set.
func fields(w Workload) (map[string]any, error) {
	all, err := runtime.DefaultUnstructuredConverter.ToUnstructured(w)
	if err != nil {
		return nil, err
	}
	metadata, _ := all["metadata"].(map[string]any)
	return map[string]any{"spec": all["spec"], "labels": metadata["labels"], "annotations": metadata["annotations"]}, nil
}

// covers tells whether have has all of want. A list has no more entries than wanted: one more container is a change of ours.
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
