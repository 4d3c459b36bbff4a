package v1alpha1

import "fmt"

// MulticastPolicy is which pods exchange multicast packets. Flood: the packets reach all pods of the sender's node, and
// no other node. OnRequest: they reach the pods of the sender's namespace on all nodes, if the namespace requests it.
//
// +kubebuilder:validation:Enum=Flood;OnRequest
type MulticastPolicy string

const (
	// MulticastFlood delivers packets as a simple switch does.
	MulticastFlood MulticastPolicy = "Flood"
	// MulticastOnRequest delivers packets within namespaces that request it, to the pods that joined the group.
	MulticastOnRequest MulticastPolicy = "OnRequest"
)

// MulticastAnnotation on a namespace requests, with the value "true", that its pods exchange multicast packets. It has an
// effect while ClusterNetwork.spec.multicast is OnRequest.
const MulticastAnnotation = GroupName + "/multicast"

// ParseMulticast reads MulticastAnnotation from the annotations of a namespace. Its error names the annotation.
func ParseMulticast(annotations map[string]string) (requested bool, err error) {
	switch text, ok := annotations[MulticastAnnotation]; {
	case !ok || text == "false":
		return false, nil
	case text == "true":
		return true, nil
	default:
		return false, fmt.Errorf("annotation %s: %q is neither \"true\" nor \"false\"", MulticastAnnotation, text)
	}
}
