package v1alpha1

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/resource"
)

// Annotations of Kubernetes that limit a pod's traffic, in bits per second as a quantity: "10M". Directions are from
// the pod's point of view.
const (
	IngressBandwidthAnnotation = "kubernetes.io/ingress-bandwidth"
	EgressBandwidthAnnotation  = "kubernetes.io/egress-bandwidth"
)

// Limits of a bandwidth in bits per second: Kubernetes' minimum, and OVN's maximum, which it counts in kilobits
// (ovn-nb(5), QoS).
const (
	MinBandwidth = 1_000
	MaxBandwidth = 4_294_967_295_000
)

// Bandwidth limits a pod's traffic in bits per second; 0 means no limit.
//
// +kubebuilder:object:generate=false
type Bandwidth struct {
	Ingress, Egress int64
}

// ParseBandwidth parses a pod's limits from its annotations. If one of them is invalid, the error names the
// annotation and there is no limit.
func ParseBandwidth(annotations map[string]string) (Bandwidth, error) {
	ingress, err := parseLimit(annotations, IngressBandwidthAnnotation)
	if err != nil {
		return Bandwidth{}, err
	}
	egress, err := parseLimit(annotations, EgressBandwidthAnnotation)
	if err != nil {
		return Bandwidth{}, err
	}
	return Bandwidth{Ingress: ingress, Egress: egress}, nil
}

func parseLimit(annotations map[string]string, name string) (int64, error) {
	text, ok := annotations[name]
	if !ok {
		return 0, nil
	}
	quantity, err := resource.ParseQuantity(text)
	if err != nil {
		return 0, fmt.Errorf("annotation %s: %q: %w", name, text, err)
	}
	if quantity.CmpInt64(MinBandwidth) < 0 || quantity.CmpInt64(MaxBandwidth) > 0 {
		return 0, fmt.Errorf("annotation %s: %q is not between 1k and %dk bits per second", name, text, MaxBandwidth/1000)
	}
	return quantity.Value(), nil
}
