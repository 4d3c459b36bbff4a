package kind

import (
	"context"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Requests lists objects of the list's type, and returns a request for each. A list that fails has none: the cache returns no errors once
// it is in sync.
func Requests(ctx context.Context, c client.Reader, list client.ObjectList, options ...client.ListOption) []reconcile.Request {
	return RequestsIf(ctx, c, list, func(client.Object) bool { return true }, options...)
}

// RequestsIf is Requests for the objects that which selects. T is the type of the list's objects.
func RequestsIf[T client.Object](ctx context.Context, c client.Reader, list client.ObjectList, which func(T) bool,
	options ...client.ListOption) (requests []reconcile.Request) {
	if err := c.List(ctx, list, options...); err != nil {
		return nil
	}
	_ = meta.EachListItem(list, func(o runtime.Object) error {
		if object, ok := o.(T); ok && which(object) {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(object)})
		}
		return nil
	})
	return requests
}
