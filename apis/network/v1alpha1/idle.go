package v1alpha1

// IdleAnnotation with the value "true" is set on a Service by a program that has scaled the service's pods to zero
// and scales them up on demand. While such a service has no endpoint, connections to it are dropped instead of
// refused, so that clients retry. The node of the client records an Event with reason EventNeedPods on the Service.
const (
	IdleAnnotation = GroupName + "/idle"
	// EventNeedPods is the reason that common idling programs wait for.
	EventNeedPods = "NeedPods"
)
