package v1alpha1

import "fmt"

// EgressSourceAnnotation on a Service of type LoadBalancer makes, with the value EgressSourceLoadBalancer, packets that its pods send
// out of the cluster have the Service's addresses as their source.
const EgressSourceAnnotation = GroupName + "/egress-source"

// EgressSourceLoadBalancer is the only value of EgressSourceAnnotation.
const EgressSourceLoadBalancer = "LoadBalancer"

// ParseEgressSource reads EgressSourceAnnotation from the annotations of a Service. Its error names the annotation.
func ParseEgressSource(annotations map[string]string) (requested bool, err error) {
	switch text, ok := annotations[EgressSourceAnnotation]; {
	case !ok:
		return false, nil
	case text == EgressSourceLoadBalancer:
		return true, nil
	default:
		return false, fmt.Errorf("annotation %s: %q is not %q", EgressSourceAnnotation, text, EgressSourceLoadBalancer)
	}
}
