package kind

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Detach replaces *o, which an object of the cache shares its memory with, by a copy that may be changed and written. It returns what was
// there, which must only be read.
func Detach[T any, P interface {
	*T
	DeepCopyInto(*T)
}](o P) (was P) {
	was = new(T)
	*was = *o
	was.DeepCopyInto(o)
	return was
}

// WriteStatus writes the status of after, whose object was read as before. The write fails with a conflict if the object has changed
// since: a merge patch replaces lists, and another program, or a former leader, may have written to them. The caller's next
// reconciliation decides again.
func WriteStatus(ctx context.Context, c client.Client, before, after client.Object) error {
	return c.Status().Patch(ctx, after, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
}

// WritePodStatus is WriteStatus for the conditions of a pod, which merge by type with the conditions that a cached pod lacks. It fails
// also on a pod that was recreated under this name.
func WritePodStatus(ctx context.Context, c client.Client, before, after *corev1.Pod) error {
	return c.Status().Patch(ctx, after, client.StrategicMergeFrom(before, client.MergeFromWithOptimisticLock{}))
}

// Write is WriteStatus for the rest of an object.
func Write(ctx context.Context, c client.Client, before, after client.Object) error {
	return c.Patch(ctx, after, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
}
