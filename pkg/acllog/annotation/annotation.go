// Package annotation reads the annotation of a policy, or of its namespace, that configures the logging of ACLs.
package annotation

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

// Of returns the logging of a policy: its own annotation, or else that of its namespace. An unreadable annotation is
// reported in an event of its object, and disables the logging.
func Of(ctx context.Context, reader client.Reader, recorder events.EventRecorder,
	policy client.Object) (networkv1alpha1.ACLLogging, error) {
	from := policy
	if _, own := annotationOf(policy); !own && policy.GetNamespace() != "" {
		namespace := &metav1.PartialObjectMetadata{}
		namespace.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
		if err := reader.Get(ctx, client.ObjectKey{Name: policy.GetNamespace()}, namespace); client.IgnoreNotFound(err) != nil {
			return networkv1alpha1.ACLLogging{}, err
		} // a namespace that is created later enqueues the policy again
		from = namespace
	}
	text, ok := annotationOf(from)
	if !ok {
		return networkv1alpha1.ACLLogging{}, nil
	}
	logging, err := networkv1alpha1.ParseACLLogging(text)
	if err != nil {
		recorder.Eventf(from, nil, corev1.EventTypeWarning, networkv1alpha1.ReasonInvalidAnnotation, "Log", "nothing is logged: %v", err)
	}
	return logging, nil
}

func annotationOf(o client.Object) (text string, ok bool) {
	text, ok = o.GetAnnotations()[networkv1alpha1.ACLLoggingAnnotation]
	return text, ok
}

// Changed passes updates that change an object's annotation.
func Changed() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: changed}
}

func changed(e event.UpdateEvent) bool {
	before, had := annotationOf(e.ObjectOld)
	after, has := annotationOf(e.ObjectNew)
	return before != after || had != has
}

// NamespaceChanged passes events of namespaces that change the annotation. A policy may arrive before its namespace.
func NamespaceChanged() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool { _, ok := annotationOf(e.Object); return ok },
		UpdateFunc: changed,
		DeleteFunc: func(event.DeleteEvent) bool { return false },
	}
}
