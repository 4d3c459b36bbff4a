package trigger

import (
	"maps"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
)

// Changed passes the updates for which differ is true, and all other events.
func Changed[T client.Object](differ func(before, after T) bool) predicate.Funcs {
	return predicate.Funcs{UpdateFunc: Update(differ)}
}

// OnlyChanged passes nothing but the updates for which differ is true.
func OnlyChanged[T client.Object](differ func(before, after T) bool) predicate.Funcs {
	return predicate.Funcs{UpdateFunc: Update(differ), CreateFunc: func(event.CreateEvent) bool { return false },
		DeleteFunc: func(event.DeleteEvent) bool { return false }}
}

// Update returns the UpdateFunc that passes an update if differ is true of the objects before and after it. Objects of another type pass.
func Update[T client.Object](differ func(before, after T) bool) func(event.UpdateEvent) bool {
	return func(e event.UpdateEvent) bool {
		before, ok := e.ObjectOld.(T)
		after, ok2 := e.ObjectNew.(T)
		return !ok || !ok2 || differ(before, after)
	}
}

// SpecChanged passes changes of an object's spec.
func SpecChanged() predicate.Predicate {
	return Changed(func(before, after client.Object) bool { return before.GetGeneration() != after.GetGeneration() })
}

// LabelsChanged reports whether an object's labels differ.
func LabelsChanged(before, after client.Object) bool {
	return !maps.Equal(before.GetLabels(), after.GetLabels())
}
