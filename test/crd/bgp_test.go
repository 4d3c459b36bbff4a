package crd

import (
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

func TestBGPPeerIsAcceptedOrRefused(t *testing.T) {
	of := func(more string) string { return `{peerAddress: 192.0.2.1, peerASN: 64512, myASN: 64513` + more + `}` }
	for name, test := range map[string]struct {
		spec string
		want refusal
	}{
		"every field": {spec: `{peerAddress: "2001:db8::1", peerASN: 4200000000, myASN: 64513, peerPort: 1179, nodeSelector: {},
			sourceAddress: "2001:db8::2", holdTimeSeconds: 9, keepaliveTimeSeconds: 3, ebgpMultiHop: true, passwordKey: rack-a,
			gracefulRestartTimeSeconds: 0, bfd: {transmitIntervalMilliseconds: 10, receiveIntervalMilliseconds: 60000, detectMultiplier: 50,
			multiHop: true}}`},
		"BFD with defaults": {spec: of(", bfd: {}")},
		"a short BFD interval": {of(`, bfd: {transmitIntervalMilliseconds: 9}`),
			refusal{"spec.bfd.transmitIntervalMilliseconds", []string{"10"}}},
		"a long BFD interval": {of(`, bfd: {receiveIntervalMilliseconds: 60001}`),
			refusal{"spec.bfd.receiveIntervalMilliseconds", []string{"60000"}}},
		"a BFD multiplier of 1": {of(`, bfd: {detectMultiplier: 1}`), refusal{"spec.bfd.detectMultiplier", []string{"2"}}},
		"the least":             {spec: of("")},
		"text": {`{peerAddress: router, peerASN: 1, myASN: 1}`,
			refusal{"spec.peerAddress", []string{`"router" is not an IPv4 or IPv6 address`}}},
		"no AS number": {`{peerAddress: 192.0.2.1, myASN: 1}`, refusal{"spec.peerASN", []string{"Required"}}},
		"AS 0": {`{peerAddress: 192.0.2.1, peerASN: 0, myASN: 1}`,
			refusal{"spec.peerASN", []string{"greater than or equal to 1"}}},
		"two families": {of(`, sourceAddress: "2001:db8::2"`), refusal{"spec.sourceAddress", []string{"same family"}}},
		"a long keepalive": {of(`, holdTimeSeconds: 9, keepaliveTimeSeconds: 9`),
			refusal{"spec.keepaliveTimeSeconds", []string{"less than holdTimeSeconds"}}},
		"a short hold time": {of(`, holdTimeSeconds: 2`), refusal{"spec.holdTimeSeconds", []string{"greater than or equal to 3"}}},
		"hops within an AS": {`{peerAddress: 192.0.2.1, peerASN: 1, myASN: 1, ebgpMultiHop: true}`,
			refusal{"spec.ebgpMultiHop", []string{"peerASN differs"}}},
		"a path as a key": {of(`, passwordKey: ../tls/key`), refusal{"spec.passwordKey", []string{"should match"}}},
		"a long restart time": {of(`, gracefulRestartTimeSeconds: 4096`),
			refusal{"spec.gracefulRestartTimeSeconds", []string{"4095"}}},
	} {
		t.Run(name, func(t *testing.T) {
			test.want.check(t, api.Create(t.Context(), object(t, "BGPPeer", "rack", test.spec), client.DryRunAll))
		})
	}
}

func TestBGPAdvertisementIsAcceptedOrRefused(t *testing.T) {
	community := func(text string) string { return `{podSubnets: true, communities: ["` + text + `"]}` }
	notACommunity := refusal{"spec.communities[0]", []string{"should match"}}
	for name, test := range map[string]struct {
		spec string
		want refusal
	}{
		"every field": {spec: `{loadBalancers: {pools: [edge], poolSelector: {}, serviceSelector: {}, namespaceSelector: {}}, podSubnets: true,
			egressIPs: {selector: {}}, nodeSelector: {}, peers: [rack], aggregationLength: 24, aggregationLengthV6: 64,
			localPreference: 200, communities: ["64512:1", "64512:1:2", "large:64512:1:3", no-export]}`},
		"all load balancers":  {spec: `{loadBalancers: {}}`},
		"all egress IPs":      {spec: `{egressIPs: {}}`},
		"nothing":             {`{}`, refusal{"spec", []string{"one of loadBalancers, podSubnets and egressIPs"}}},
		"a name as community": {community("blue"), notACommunity},
		"a number":            {community("100"), notACommunity},
		"four numbers":        {community("1:2:3:4"), notACommunity},
		"the largest":         {spec: community("65535:65535")},
		"a large AS number":   {community("65536:1"), refusal{"spec.communities[0]", []string{"65536:1", "at most 65535"}}},
		"a large number":      {community("1:2:4294967296"), refusal{"spec.communities[0]", []string{"4294967295 in a large one"}}},
		"a long prefix":       {`{podSubnets: true, aggregationLength: 33}`, refusal{"spec.aggregationLength", []string{"32"}}},
		"a negative preference": {`{podSubnets: true, localPreference: -1}`,
			refusal{"spec.localPreference", []string{"greater than or equal to 0"}}},
	} {
		t.Run(name, func(t *testing.T) {
			test.want.check(t, api.Create(t.Context(), object(t, "BGPAdvertisement", "all", test.spec), client.DryRunAll))
		})
	}
}
