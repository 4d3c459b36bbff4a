// Package acllogging finds what is wanted of the logs of ACLs: an annotation of a policy, or of its namespace.
package acllogging

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

// Of is what is wanted of a policy: what it says itself, or else its namespace. What cannot be read is told in an event of who says it, and logs
// nothing.
func Of(ctx context.Context, reader client.Reader, recorder events.EventRecorder, policy client.Object) (networkv1alpha1.ACLLogging, error) {
	from := policy
	if _, own := said(policy); !own && policy.GetNamespace() != "" {
		namespace := &metav1.PartialObjectMetadata{}
		namespace.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
		if err := reader.Get(ctx, client.ObjectKey{Name: policy.GetNamespace()}, namespace); client.IgnoreNotFound(err) != nil {
			return networkv1alpha1.ACLLogging{}, err
		} // one that comes later asks again
		from = namespace
	}
	text, ok := said(from)
	if !ok {
		return networkv1alpha1.ACLLogging{}, nil
	}
	logging, err := networkv1alpha1.ParseACLLogging(text)
	if err != nil {
		recorder.Eventf(from, nil, corev1.EventTypeWarning, networkv1alpha1.ReasonInvalidAnnotation, "Log", "nothing is logged: %v", err)
	}
	return logging, nil
}

func said(o client.Object) (text string, ok bool) {
	text, ok = o.GetAnnotations()[networkv1alpha1.ACLLoggingAnnotation]
	return text, ok
}

// Changed lets the updates pass that change what an object says.
func Changed() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: changed}
}

func changed(e event.UpdateEvent) bool {
	before, had := said(e.ObjectOld)
	after, has := said(e.ObjectNew)
	return before != after || had != has
}

// NamespaceChanged lets the events of namespaces pass that change what they say of their policies. A policy can be seen before its namespace.
func NamespaceChanged() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool { _, says := said(e.Object); return says },
		UpdateFunc: changed,
		DeleteFunc: func(event.DeleteEvent) bool { return false },
	}
}
