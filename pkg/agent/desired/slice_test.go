package desired_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weft-network/weft/pkg/agent/desired"
)

// endpoint is one of a pod; nil conditions are not said.
func endpoint(node, pod string, ready, serving *bool) discoveryv1.Endpoint {
	e := discoveryv1.Endpoint{Addresses: []string{"10.244.1." + pod}, NodeName: &node, Conditions: discoveryv1.EndpointConditions{Ready: ready, Serving: serving}}
	if pod != "" {
		e.TargetRef = &corev1.ObjectReference{Kind: "Pod", Namespace: "demo", Name: pod, UID: "u"}
	}
	return e
}

func TestFindLocal(t *testing.T) {
	yes, no := true, false
	for name, test := range map[string]struct {
		endpoints []discoveryv1.Endpoint
		want      desired.LocalEndpoints
	}{
		"none":                           {nil, desired.LocalEndpoints{}},
		"elsewhere":                      {[]discoveryv1.Endpoint{endpoint("n2", "5", &yes, &yes)}, desired.LocalEndpoints{}},
		"two here":                       {[]discoveryv1.Endpoint{endpoint("n1", "5", &yes, &yes), endpoint("n1", "6", nil, nil)}, desired.LocalEndpoints{Ready: 2, Usable: true}},
		"one of both families":           {[]discoveryv1.Endpoint{endpoint("n1", "5", &yes, &yes), endpoint("n1", "5", &yes, &yes)}, desired.LocalEndpoints{Ready: 1, Usable: true}},
		"one that ends and still serves": {[]discoveryv1.Endpoint{endpoint("n1", "5", &no, &yes)}, desired.LocalEndpoints{Usable: true}},
		"one that does not serve":        {[]discoveryv1.Endpoint{endpoint("n1", "5", &no, &no)}, desired.LocalEndpoints{}},
	} {
		slice := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "web-1", Labels: map[string]string{"kubernetes.io/service-name": "web", "a": "b"}},
			Endpoints: test.endpoints}
		once := desired.StripSlice(slice, "n1")
		if got := desired.FindLocal([]discoveryv1.EndpointSlice{*once}, desired.Place{Node: "n1"}); got.Ready != test.want.Ready || got.Usable != test.want.Usable {
			t.Errorf("%s: %+v, want %+v", name, got, test.want)
		}
		if diff := cmp.Diff(once, desired.StripSlice(once, "n1")); diff != "" || len(once.Labels) != 1 {
			t.Errorf("%s: stripped twice:\n%s", name, diff)
		}
	}
}
