package v1alpha1

// IdleAnnotation with the value "true" is set on a Service by who has scaled its pods to zero and will bring them back when they are
// asked for. As long as such a service has no endpoint, a connection to it is not refused but swallowed, so that clients try again, and the
// node that it came from records an Event of reason EventNeedPods on the Service.
const (
	IdleAnnotation = GroupName + "/idle"
	// EventNeedPods is what the field's idlers wait for.
	EventNeedPods = "NeedPods"
)
