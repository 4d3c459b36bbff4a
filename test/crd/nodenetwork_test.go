package crd

import (
	"fmt"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weft-network/weft/apis/network/v1alpha1"
)

const worker = `{nodeID: 7, podSubnets: [10.244.7.0/24, "fd00:10:244:7::/64"], gateways: [10.244.7.1, "fd00:10:244:7::1"],
  joinAddresses: [100.64.0.9/16, "fd98::9/64"],
  managementPort: {macAddress: "0a:58:0a:f4:07:02", addresses: [10.244.7.2/24, "fd00:10:244:7::2/64"]},
  clusterSubnets: [10.244.0.0/16, "fd00:10:244::/48"], serviceSubnets: [10.96.0.0/16, "fd00:10:96::/112"],
  mtu: 1400, encapsulation: {type: Geneve}}`

func TestNodeNetworkIsAcceptedOrRefused(t *testing.T) {
	for name, test := range map[string]struct {
		spec string
		want refusal
	}{
		"every field":  {spec: worker},
		"empty":        {spec: `{}`},
		"first nodeID": {spec: fmt.Sprintf(`{nodeID: %d}`, v1alpha1.MinNodeID)},
		"last nodeID":  {spec: fmt.Sprintf(`{nodeID: %d}`, v1alpha1.MaxNodeID)},
		"nodeID 0": {fmt.Sprintf(`{nodeID: %d}`, v1alpha1.MinNodeID-1),
			refusal{"spec.nodeID", []string{"greater than or equal to 1"}}},
		"nodeID 16001": {fmt.Sprintf(`{nodeID: %d}`, v1alpha1.MaxNodeID+1),
			refusal{"spec.nodeID", []string{"less than or equal to 16000"}}},
		"pod subnet": {`{podSubnets: [10.244.7.2/24]}`, refusal{"spec.podSubnets[0]", []string{"10.244.7.2/24 has host bits"}}},
		"gateway": {`{gateways: [10.244.7.1/24]}`,
			refusal{"spec.gateways[0]", []string{`"10.244.7.1/24" is not an IPv4 or IPv6 address`}}},
		"join address": {`{joinAddresses: [100.64.0.9]}`, refusal{"spec.joinAddresses[0]",
			[]string{`"100.64.0.9" is not an address with a prefix length`}}},
		"host's MAC": {`{managementPort: {macAddress: "0A:58:0A:F4:07:02"}}`,
			refusal{"spec.managementPort.macAddress", []string{"should match"}}},
		"host's IP": {`{managementPort: {addresses: [10.244.7.2]}}`, refusal{"spec.managementPort.addresses[0]",
			[]string{`"10.244.7.2" is not an address with a prefix length`}}},
		"encapsulation": {`{encapsulation: {type: STT}}`, refusal{"spec.encapsulation.type", []string{`"Geneve"`}}},
	} {
		t.Run(name, func(t *testing.T) {
			test.want.check(t, api.Create(t.Context(), object(t, "NodeNetwork", "worker", test.spec), client.DryRunAll))
		})
	}
}

func TestNodeNetworkChanges(t *testing.T) {
	for name, test := range map[string]struct {
		from, to string
		want     refusal
	}{
		"nodeID set":     {from: `{}`, to: `{nodeID: 7}`},
		"nodeID kept":    {from: `{nodeID: 7}`, to: worker},
		"nodeID changed": {`{nodeID: 7}`, `{nodeID: 8}`, refusal{"spec.nodeID", []string{"nodeID is immutable once set"}}},
		"nodeID removed": {`{nodeID: 7}`, `{}`, refusal{"spec.nodeID", []string{"nodeID is immutable once set"}}},
	} {
		t.Run(name, func(t *testing.T) {
			stored := object(t, "NodeNetwork", "worker", test.from)
			create(t, stored)
			changed := object(t, "NodeNetwork", "worker", test.to)
			changed.SetResourceVersion(stored.GetResourceVersion())
			test.want.check(t, api.Update(t.Context(), changed, client.DryRunAll))
		})
	}
}
