package desired

import (
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// StripSlice keeps of an EndpointSlice the endpoints on this node that may serve, and of those whether they are ready. What it returned before
// it returns again: a cache strips what it lists twice.
func StripSlice(s *discoveryv1.EndpointSlice, node string) *discoveryv1.EndpointSlice {
	kept := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: s.Name, UID: s.UID, ResourceVersion: s.ResourceVersion,
		Labels: map[string]string{discoveryv1.LabelServiceName: s.Labels[discoveryv1.LabelServiceName]}}}
	for i := range s.Endpoints {
		e := &s.Endpoints[i]
		if e.NodeName == nil || *e.NodeName != node || !isReady(e) && !isServing(e) {
			continue
		}
		ready := isReady(e)
		kept.Endpoints = append(kept.Endpoints, discoveryv1.Endpoint{NodeName: e.NodeName, TargetRef: nameOf(e), Addresses: e.Addresses[:min(1, len(e.Addresses))],
			Conditions: discoveryv1.EndpointConditions{Ready: &ready, Serving: e.Conditions.Serving}})
	}
	return kept
}

// nameOf keeps of what an endpoint refers to the name: a pod has an endpoint in the slice of each family.
func nameOf(e *discoveryv1.Endpoint) *corev1.ObjectReference {
	if e.TargetRef == nil {
		return nil
	}
	return &corev1.ObjectReference{Kind: e.TargetRef.Kind, Namespace: e.TargetRef.Namespace, Name: e.TargetRef.Name}
}

// An endpoint of which nothing is said is ready (discovery/v1).
func isReady(e *discoveryv1.Endpoint) bool { return e.Conditions.Ready == nil || *e.Conditions.Ready }

func isServing(e *discoveryv1.Endpoint) bool {
	return e.Conditions.Serving != nil && *e.Conditions.Serving
}

// LocalEndpoints are a service's on this node.
type LocalEndpoints struct {
	// Ready counts those that are ready: pods, however many families they have.
	Ready int
	// Usable says that one may serve: where none is ready, one that still serves while it ends.
	Usable bool
}

// CountLocal counts what StripSlice kept of a service's slices.
func CountLocal(slices []discoveryv1.EndpointSlice) LocalEndpoints {
	ready := map[string]bool{} // pod, or address where there is none
	local := LocalEndpoints{}
	for i := range slices {
		for j := range slices[i].Endpoints {
			e := &slices[i].Endpoints[j]
			local.Usable = true
			if isReady(e) {
				ready[identityOf(e)] = true
			}
		}
	}
	local.Ready = len(ready)
	return local
}

func identityOf(e *discoveryv1.Endpoint) string {
	if e.TargetRef != nil {
		return e.TargetRef.Kind + " " + e.TargetRef.Namespace + "/" + e.TargetRef.Name
	}
	if len(e.Addresses) > 0 {
		return e.Addresses[0]
	}
	return ""
}
