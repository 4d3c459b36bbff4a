package desired_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/weft-network/weft/pkg/agent/desired"
)

// A cache keeps the endpoints that serve, or are not ready yet: on the node as they are, and elsewhere merged if they are alike. It has
// the same addresses as the slice, and stripping it again changes nothing.
func TestStripSlice(t *testing.T) {
	yes, no := true, false
	endpoint := func(node, last string, ready, serving, ends *bool, zones ...string) discoveryv1.Endpoint {
		e := discoveryv1.Endpoint{Addresses: []string{"10.244.1." + last, "10.244.9.9"}, NodeName: &node, Zone: new("z"),
			Conditions: discoveryv1.EndpointConditions{Ready: ready, Serving: serving, Terminating: ends},
			TargetRef:  &corev1.ObjectReference{Kind: "Pod", Namespace: "demo", Name: "web-" + last, UID: "u"}}
		for _, zone := range zones {
			e.Hints = &discoveryv1.EndpointHints{ForZones: []discoveryv1.ForZone{{Name: zone}}}
		}
		return e
	}
	slice := &discoveryv1.EndpointSlice{AddressType: discoveryv1.AddressTypeIPv4,
		Ports: []discoveryv1.EndpointPort{{Port: new(int32(80))}}, Endpoints: []discoveryv1.Endpoint{
			endpoint("n1", "1", nil, nil, nil), endpoint("n2", "2", &yes, &yes, &no), endpoint("n3", "3", nil, nil, nil),
			endpoint("n2", "4", &no, &yes, &yes), endpoint("n1", "5", &no, &no, &yes), endpoint("n2", "6", &no, nil, nil),
			endpoint("n3", "7", &yes, &yes, nil, "a"), endpoint("n2", "8", &no, nil, &yes), endpoint("n2", "9", nil, nil, nil, "a"),
		}}
	slice.Namespace, slice.Name = "demo", "web-1"
	slice.Labels = map[string]string{discoveryv1.LabelServiceName: "web", "a": "b"}
	once := desired.StripSlice(slice, "n1")
	var have []string
	for _, e := range once.Endpoints {
		have = append(have, fmt.Sprint(*e.NodeName, " ", e.Addresses, " ", *e.Conditions.Ready, " ", e.Hints != nil, " ", e.TargetRef != nil))
	}
	want := []string{"n1 [10.244.1.1] true false false", "- [10.244.1.2 10.244.1.3] true false false",
		"- [10.244.1.4 10.244.1.8] false false false", "- [10.244.1.6] false false false", "- [10.244.1.7 10.244.1.9] true true false"}
	if diff := cmp.Diff(want, have); diff != "" || len(once.Labels) != 1 {
		t.Errorf("the stripped slice %+v (-want +got):\n%s", once, diff)
	}
	if desired.StripSlice(once, "n1") != once {
		t.Error("a stripped slice is stripped again")
	}
	all := desired.Unmerged([]discoveryv1.EndpointSlice{*once})[0].Endpoints
	if len(all) != 8 || len(once.Endpoints) != 5 {
		t.Errorf("%d endpoints are left of 8", len(all))
	}
	for _, e := range all {
		if len(e.Addresses) != 1 {
			t.Errorf("an endpoint has the addresses %v", e.Addresses)
		}
	}
}
