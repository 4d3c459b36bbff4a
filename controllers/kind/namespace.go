package kind

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// NewNamespace returns an object to read the metadata of a namespace into. Only metadata of namespaces are cached.
func NewNamespace() *metav1.PartialObjectMetadata {
	namespace := &metav1.PartialObjectMetadata{}
	namespace.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	return namespace
}

// NamespaceLabels returns the labels of a namespace, which the caller must not change; nil if the namespace does not exist.
// An object may be cached before its namespace, whose creation then has to enqueue it.
func NamespaceLabels(ctx context.Context, reader client.Reader, name string) (labels.Set, error) {
	namespace := NewNamespace()
	err := reader.Get(ctx, types.NamespacedName{Name: name}, namespace)
	return namespace.Labels, client.IgnoreNotFound(err)
}
