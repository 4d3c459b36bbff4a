package desired

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
)

// The values to which the pointers in stripped slices point.
var (
	yes, no = true, false
	// elsewhere is the node of the endpoints on other nodes. No Node can have this name.
	elsewhere = "-"
)

// StripSlice returns a copy of an EndpointSlice without terminating endpoints that no longer serve, for the cache of the agent on a
// node. Endpoints that are not ready stay, because they precede terminating ones with the same address. Endpoints on
// other nodes that are alike are merged into one with all addresses, which costs 32 bytes for each.
// StripSlice returns its own result unchanged, because a cache strips objects again when it lists them again.
func StripSlice(s *discoveryv1.EndpointSlice, node string) *discoveryv1.EndpointSlice {
	if isStripped(s) {
		return s
	}
	kept := &discoveryv1.EndpointSlice{AddressType: s.AddressType}
	kept.Namespace, kept.Name, kept.UID, kept.ResourceVersion = s.Namespace, s.Name, s.UID, s.ResourceVersion
	kept.Labels = map[string]string{discoveryv1.LabelServiceName: s.Labels[discoveryv1.LabelServiceName]}
	if cause := s.Annotations[corev1.EndpointsLastChangeTriggerTime]; cause != "" {
		kept.Annotations = map[string]string{corev1.EndpointsLastChangeTriggerTime: cause}
	}
	merged := map[string]int{} // index in kept.Endpoints
	for i := range s.Endpoints {
		e := strip(&s.Endpoints[i])
		if len(e.Addresses) == 0 || e.Conditions.Ready == &no && e.Conditions.Serving == &no && e.Conditions.Terminating == &yes {
			continue
		}
		if e.NodeName == nil || *e.NodeName == node {
			kept.Endpoints = append(kept.Endpoints, e)
			continue
		}
		e.NodeName = &elsewhere
		key := fmt.Sprint(*e.Conditions.Ready, *e.Conditions.Terminating, e.Hints)
		if at, ok := merged[key]; ok {
			kept.Endpoints[at].Addresses = append(kept.Endpoints[at].Addresses, e.Addresses...)
			continue
		}
		merged[key], kept.Endpoints = len(kept.Endpoints), append(kept.Endpoints, e)
	}
	for i := range kept.Endpoints {
		kept.Endpoints[i].Addresses = slices.Clip(kept.Endpoints[i].Addresses)
	}
	if len(kept.Endpoints) > 0 {
		kept.Ports = s.Ports
	}
	return kept
}

// isStripped reports whether a slice is StripSlice's result with endpoints. Nobody else has its pointers.
func isStripped(s *discoveryv1.EndpointSlice) bool {
	return len(s.Endpoints) > 0 && (s.Endpoints[0].Conditions.Ready == &yes || s.Endpoints[0].Conditions.Ready == &no)
}

// strip returns what an agent needs of an endpoint: one address, conditions, node and hints.
func strip(e *discoveryv1.Endpoint) discoveryv1.Endpoint {
	return discoveryv1.Endpoint{
		NodeName: e.NodeName, Addresses: e.Addresses[:min(1, len(e.Addresses))], Hints: e.Hints,
		Conditions: discoveryv1.EndpointConditions{
			Ready:       known(e.Conditions.Ready, true),
			Serving:     known(e.Conditions.Serving, true),
			Terminating: known(e.Conditions.Terminating, false),
		},
	}
}

// known returns a condition with its default value if it is not set (discovery/v1).
func known(condition *bool, unset bool) *bool {
	if condition == nil && unset || condition != nil && *condition {
		return &yes
	}
	return &no
}

// Unmerged returns stripped slices with one endpoint for each address, as the API has them.
func Unmerged(stripped []discoveryv1.EndpointSlice) []discoveryv1.EndpointSlice {
	all := slices.Clone(stripped)
	for i := range all {
		var endpoints []discoveryv1.Endpoint
		for _, e := range all[i].Endpoints {
			for _, address := range e.Addresses {
				one := e
				one.Addresses = []string{address}
				endpoints = append(endpoints, one)
			}
		}
		all[i].Endpoints = endpoints
	}
	return all
}
