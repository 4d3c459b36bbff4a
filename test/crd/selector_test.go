package crd

import (
	"fmt"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// The API server refuses a label selector that nothing can read. The cost of rules does not permit them within lists: there, the object's
// condition names the field.
func TestSelectorsAreAcceptedOrRefused(t *testing.T) {
	const cluster = `{clusterNetwork: [{cidr: 10.244.0.0/16}], serviceNetwork: [10.96.0.0/16], `
	const maps, selectors = true, false
	for name, at := range map[string]struct {
		kind, name, spec string // the spec has %s in place of the selector
		isMap            bool
	}{
		"a zone": {"ClusterNetwork", "default", cluster + `zones: [{name: east, nodeSelector: %s}]}`, maps},
		"the relays of a zone": {"ClusterNetwork", "default", cluster +
			`zones: [{name: east, nodeSelector: {zone: east}, databases: {relays: {nodeSelector: %s}}}]}`, maps},
		"relays":                {"ClusterNetwork", "default", cluster + `databases: {relays: {nodeSelector: %s}}}`, maps},
		"a Network":             {"Network", "blue", `{topology: Layer2, ipam: None, namespaces: %s}`, selectors},
		"namespaces of IPPools": {"IPPool", "web", `{location: NAT, ranges: [{addresses: 192.0.2.0/28}], namespaces: %s}`, selectors},
		"Services of a pool":    {"LoadBalancerPool", "edge", `{addresses: [192.0.2.0/28], serviceSelector: %s}`, selectors},
		"namespaces of a pool":  {"LoadBalancerPool", "edge", `{addresses: [192.0.2.0/28], namespaceSelector: %s}`, selectors},
		"nodes of a pool":       {"LoadBalancerPool", "edge", `{addresses: [192.0.2.0/28], nodeSelector: %s}`, selectors},
		"pods of an EgressIP":   {"EgressIP", "out", `{egressIPs: [192.0.2.1], namespaceSelector: {}, podSelector: %s}`, selectors},
		"a BGPPeer":             {"BGPPeer", "rack", `{myASN: 64512, peerASN: 64513, peerAddress: 192.0.2.1, nodeSelector: %s}`, selectors},
		"a BGPAdvertisement":    {"BGPAdvertisement", "all", `{loadBalancers: {poolSelector: %s}}`, selectors},
	} {
		t.Run(name, func(t *testing.T) {
			for selector, good := range map[string]bool{
				`{rack: "1"}`: true, `{example.com/rack: a.b_c-d}`: true, `{"": a}`: false,
				`{"-bad-": a}`: false, `{"team a": b}`: false, `{rack: "` + fmt.Sprintf("%064d", 1) + `"}`: false,
			} {
				if !at.isMap {
					selector = `{matchLabels: ` + selector + `}`
				}
				check(t, at.kind, at.name, fmt.Sprintf(at.spec, selector), good)
			}
			if at.isMap {
				return
			}
			for selector, good := range map[string]bool{
				`{}`: true, `{matchExpressions: [{key: rack, operator: In, values: [a]}, {key: example.com/edge, operator: Exists}]}`: true,
				`{matchExpressions: [{key: rack, operator: Near, values: [a]}]}`:   false,
				`{matchExpressions: [{key: rack, operator: In}]}`:                  false,
				`{matchExpressions: [{key: rack, operator: Exists, values: [a]}]}`: false,
			} {
				check(t, at.kind, at.name, fmt.Sprintf(at.spec, selector), good)
			}
		})
	}
}

// check creates an object with a spec on trial.
func check(t *testing.T, kind, name, spec string, good bool) {
	t.Helper()
	if err := api.Create(t.Context(), object(t, kind, name, spec), client.DryRunAll); (err == nil) != good {
		t.Errorf("%s: %v", spec, err)
	}
}
