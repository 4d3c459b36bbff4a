package desired_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/weft-network/weft/pkg/agent/desired"
)

// endpoint returns an endpoint of a pod. Nil conditions are not set.
func endpoint(node, pod string, ready, serving *bool) discoveryv1.Endpoint {
	e := discoveryv1.Endpoint{
		Addresses: []string{"10.244.1." + pod}, NodeName: &node,
		Conditions: discoveryv1.EndpointConditions{Ready: ready, Serving: serving},
	}
	if pod != "" {
		e.TargetRef = &corev1.ObjectReference{Kind: "Pod", Namespace: "demo", Name: pod, UID: "u"}
	}
	return e
}

func TestFindLocal(t *testing.T) {
	yes, no := true, false
	type endpoints = []discoveryv1.Endpoint
	for name, test := range map[string]struct {
		endpoints endpoints
		want      desired.LocalEndpoints
	}{
		"none":      {nil, desired.LocalEndpoints{}},
		"elsewhere": {endpoints{endpoint("n2", "5", &yes, &yes)}, desired.LocalEndpoints{}},
		"two on this node": {
			endpoints{endpoint("n1", "5", &yes, &yes), endpoint("n1", "6", nil, nil)},
			desired.LocalEndpoints{Ready: 2, Usable: true},
		},
		"a pod in both families": {
			endpoints{endpoint("n1", "5", &yes, &yes), endpoint("n1", "5", &yes, &yes)},
			desired.LocalEndpoints{Ready: 1, Usable: true},
		},
		"terminating but serving": {endpoints{endpoint("n1", "5", &no, &yes)}, desired.LocalEndpoints{Usable: true}},
		"not serving":             {endpoints{endpoint("n1", "5", &no, &no)}, desired.LocalEndpoints{}},
	} {
		slice := &discoveryv1.EndpointSlice{Endpoints: test.endpoints}
		slice.Namespace, slice.Name = "demo", "web-1"
		slice.Labels = map[string]string{"kubernetes.io/service-name": "web", "a": "b"}
		once := desired.StripSlice(slice, "n1")
		got := desired.FindLocal([]discoveryv1.EndpointSlice{*once}, desired.Place{Node: "n1"})
		if got.Ready != test.want.Ready || got.Usable != test.want.Usable {
			t.Errorf("%s: %+v, want %+v", name, got, test.want)
		}
		if diff := cmp.Diff(once, desired.StripSlice(once, "n1")); diff != "" || len(once.Labels) != 1 {
			t.Errorf("%s: stripped twice:\n%s", name, diff)
		}
	}
}
