package v1alpha1

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// LoadBalancerClassPrefix begins each loadBalancerClass that the operator serves.
const LoadBalancerClassPrefix = "weft.dev/"

// DefaultLoadBalancerClass is the loadBalancerClass of a LoadBalancerPool that names none.
const DefaultLoadBalancerClass = LoadBalancerClassPrefix + "load-balancer"

// Annotations of Services of type LoadBalancer.
const (
	// LoadBalancerIPsAnnotation requests addresses, separated by commas.
	LoadBalancerIPsAnnotation = "weft.dev/load-balancer-ips"
	// LoadBalancerPoolAnnotation requests addresses of one LoadBalancerPool.
	LoadBalancerPoolAnnotation = "weft.dev/load-balancer-pool"
	// AllowSharedIPAnnotation lets Services with the same value share an address.
	AllowSharedIPAnnotation = "weft.dev/allow-shared-ip"
	// SharedIPNamespacesAnnotation lists other namespaces, separated by commas, with whose Services the Service may share an address, or is
	// EveryNamespace. Services of two namespaces share an address only if each allows the other's namespace.
	SharedIPNamespacesAnnotation = "weft.dev/allow-shared-ip-namespaces"
)

// EveryNamespace stands for all namespaces in SharedIPNamespacesAnnotation.
const EveryNamespace = "*"

// ParseSharedIPNamespaces reads SharedIPNamespacesAnnotation from the annotations of a Service. Its error names the annotation.
func ParseSharedIPNamespaces(annotations map[string]string) (names []string, err error) {
	text := annotations[SharedIPNamespacesAnnotation]
	if strings.TrimSpace(text) == "" {
		return nil, nil
	}
	for name := range strings.SplitSeq(text, ",") {
		name = strings.TrimSpace(name)
		if name != EveryNamespace && len(validation.IsDNS1123Label(name)) > 0 {
			return nil, fmt.Errorf("annotation %s: %q is neither the name of a namespace nor %q", SharedIPNamespacesAnnotation, name,
				EveryNamespace)
		}
		names = append(names, name)
	}
	return names, nil
}

// Names of the same annotations for Services that were written for MetalLB. Weft's own names come first.
var (
	LoadBalancerIPsAnnotations  = []string{LoadBalancerIPsAnnotation, "metallb.io/loadBalancerIPs", "metallb.universe.tf/loadBalancerIPs"}
	LoadBalancerPoolAnnotations = []string{LoadBalancerPoolAnnotation, "metallb.io/address-pool", "metallb.universe.tf/address-pool"}
	AllowSharedIPAnnotations    = []string{AllowSharedIPAnnotation, "metallb.io/allow-shared-ip", "metallb.universe.tf/allow-shared-ip"}
)

// ServiceLoadBalancerReady of a Service: it has the addresses that it requests of a LoadBalancerPool. Only Services
// that a pool serves have the condition.
const ServiceLoadBalancerReady = GroupName + "/LoadBalancerReady"

// Reasons of ServiceLoadBalancerReady, besides ReasonAsExpected, ReasonProbing, ReasonInvalidRequest for an annotation or
// spec.loadBalancerIP that cannot be read, and ReasonAddressUnavailable for a requested address that cannot be given.
const (
	// ReasonNoPool: no LoadBalancerPool serves the Service.
	ReasonNoPool = "NoPool"
	// ReasonPoolExhausted: the pools that serve the Service have no free address of a family.
	ReasonPoolExhausted = "PoolExhausted"
)

// ReasonAddressesKept of ConditionReady: Services keep addresses that the LoadBalancerPool does not give any more. The message names
// them and the Services.
const ReasonAddressesKept = "AddressesKept"

// ConditionAnnounced of a LoadBalancerPool: a node answers for each address that a Service has.
const ConditionAnnounced = "Announced"

// Reasons of ConditionAnnounced, besides ReasonAsExpected, ReasonNotOnNodeNetwork and
// ReasonDatabaseSchemaTooOld.
const (
	// ReasonNoEligibleNode: no node that the pool selects can answer for an address. The message says whether former nodes do.
	ReasonNoEligibleNode = "NoEligibleNode"
	// ReasonNoLocalEndpoints: externalTrafficPolicy is Local, and no eligible node has a ready endpoint.
	ReasonNoLocalEndpoints = "NoLocalEndpoints"
)
