package crd

import (
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

func TestLocalnetIsAcceptedOrRefused(t *testing.T) {
	for name, test := range map[string]struct {
		spec string
		want refusal
	}{
		"untagged":      {spec: `{topology: Localnet, physicalNetwork: dc, subnets: [{cidr: 10.1.0.0/16}]}`},
		"with a VLAN":   {spec: `{topology: Localnet, physicalNetwork: dc, vlan: 4094, subnets: [{cidr: "fd00:1::/64"}]}`},
		"without IPAM":  {spec: `{topology: Localnet, physicalNetwork: dc, vlan: 1, ipam: None}`},
		"the gateway's": {spec: `{topology: Localnet, physicalNetwork: physnet, ipam: None}`},
		"not a segment": {spec: `{topology: Layer2, subnets: [{cidr: 10.1.0.0/16}]}`},
		"no physical network": {`{topology: Localnet, ipam: None}`,
			refusal{"spec.physicalNetwork", []string{"needs the name of its physical network"}}},
		"Layer2 with a physical network": {`{topology: Layer2, ipam: None, physicalNetwork: dc}`,
			refusal{"spec.physicalNetwork", []string{"only a Localnet network has one"}}},
		"Layer3 with a VLAN": {`{topology: Layer3, subnets: [{cidr: 10.1.0.0/16}], vlan: 7}`,
			refusal{"spec.vlan", []string{"only a Localnet network has one"}}},
		"VLAN 4095": {`{topology: Localnet, physicalNetwork: dc, ipam: None, vlan: 4095}`,
			refusal{"spec.vlan", []string{"less than or equal to 4094"}}},
		"VLAN 0": {`{topology: Localnet, physicalNetwork: dc, ipam: None, vlan: 0}`,
			refusal{"spec.vlan", []string{"greater than or equal to 1"}}},
		"a mapping as name": {`{topology: Localnet, physicalNetwork: "dc:br-ex", ipam: None}`,
			refusal{"spec.physicalNetwork", []string{"should match"}}},
		"hostPrefix": {`{topology: Localnet, physicalNetwork: dc, subnets: [{cidr: 10.1.0.0/16, hostPrefix: 24}]}`,
			refusal{"spec.subnets", []string{"only a Layer3 network has hostPrefix"}}},
	} {
		t.Run(name, func(t *testing.T) {
			test.want.check(t, api.Create(t.Context(), object(t, "Network", "segment", test.spec), client.DryRunAll))
		})
	}
}

// TestNetworkFieldsAgree covers rules about two fields of a Network.
func TestNetworkFieldsAgree(t *testing.T) {
	for name, test := range map[string]struct {
		spec string
		want refusal
	}{
		"exclusions in both families": {spec: `{topology: Layer2, subnets: [{cidr: 10.1.0.0/16}, {cidr: "fd00:1::/64"}],
			excludeSubnets: [10.1.7.0/24, "fd00:1::7:0/112", 10.1.0.9/32]}`},
		"a whole subnet": {spec: `{topology: Layer3, subnets: [{cidr: 10.1.0.0/16}], excludeSubnets: [10.1.0.0/16]}`},
		"outside": {`{topology: Layer2, subnets: [{cidr: 10.1.0.0/16}], excludeSubnets: [10.1.7.0/24, 10.2.0.0/24, 192.0.2.0/24]}`,
			refusal{"spec.excludeSubnets", []string{"excludeSubnets: 10.2.0.0/24 lies in none of the subnets"}}},
		"larger than the subnet": {`{topology: Layer2, subnets: [{cidr: 10.1.0.0/16}], excludeSubnets: [10.0.0.0/8]}`,
			refusal{"spec.excludeSubnets", []string{"10.0.0.0/8 lies in none"}}},
		"of the other family": {`{topology: Layer2, subnets: [{cidr: 10.1.0.0/16}], excludeSubnets: ["fd00:1::/112"]}`,
			refusal{"spec.excludeSubnets", []string{"fd00:1::/112 lies in none"}}},
		"without subnets": {`{topology: Layer2, ipam: None, excludeSubnets: [10.1.0.0/24]}`,
			refusal{"spec.excludeSubnets", []string{"10.1.0.0/24 lies in none"}}},
		"no CIDR": {`{topology: Layer2, subnets: [{cidr: 10.1.0.0/16}], excludeSubnets: [10.1.0.0-10]}`,
			refusal{"spec.excludeSubnets[0]", []string{"is not an IPv4 or IPv6 CIDR"}}},
		"IPv4 with a small MTU":       {spec: `{topology: Layer2, subnets: [{cidr: 10.1.0.0/16}], mtu: 576}`},
		"IPv6 with the smallest MTU":  {spec: `{topology: Layer2, subnets: [{cidr: "fd00:1::/64"}], mtu: 1280}`},
		"a small MTU without Weft":    {spec: `{topology: Layer2, ipam: None, mtu: 600}`},
		"IPv6 with the cluster's MTU": {spec: `{topology: Layer2, subnets: [{cidr: "fd00:1::/64"}]}`},
		"parts of nodes":              {spec: `{topology: Layer3, subnets: [{cidr: 10.1.0.0/16}, {cidr: "fd00:1::/48"}]}`},
		"small parts of nodes": {spec: `{topology: Layer3, subnets: [{cidr: 10.1.0.0/28, hostPrefix: 29},
			{cidr: "fd00:1::/64", hostPrefix: 112}]}`},
		"no parts on one switch": {spec: `{topology: Layer2, subnets: [{cidr: 10.1.0.0/24}, {cidr: "fd00:1::/64"}]}`},
		"a part as large as the subnet": {`{topology: Layer3, subnets: [{cidr: 10.1.0.0/24, hostPrefix: 24}]}`,
			refusal{"spec.subnets", []string{"hostPrefix", "longer than the prefix of cidr"}}},
		"the default part as large as the subnet": {`{topology: Layer3, subnets: [{cidr: 10.1.0.0/16}, {cidr: "fd00:1::/64"}]}`,
			refusal{"spec.subnets", []string{"hostPrefix", "longer than the prefix of cidr"}}},
		"a part larger than the subnet": {`{topology: Layer3, subnets: [{cidr: 10.1.0.0/24, hostPrefix: 16}]}`,
			refusal{"spec.subnets", []string{"hostPrefix", "longer than the prefix of cidr"}}},
		"a part of two IPv4 addresses": {`{topology: Layer3, subnets: [{cidr: 10.1.0.0/24, hostPrefix: 31}]}`,
			refusal{"spec.subnets", []string{"at most 29 for IPv4"}}},
		"IPv6's part in IPv4": {`{topology: Layer3, subnets: [{cidr: 10.1.0.0/16, hostPrefix: 64}]}`,
			refusal{"spec.subnets", []string{"at most 29 for IPv4"}}},
		"IPv6 with a smaller MTU": {`{topology: Layer3, subnets: [{cidr: 10.1.0.0/16}, {cidr: "fd00:1::/48"}], mtu: 1279}`,
			refusal{"spec.mtu", []string{"IPv6 needs at least 1280 bytes"}}},
	} {
		t.Run(name, func(t *testing.T) {
			test.want.check(t, api.Create(t.Context(), object(t, "Network", "agrees", test.spec), client.DryRunAll))
		})
	}
}

func TestLocalnetChanges(t *testing.T) {
	const base = `topology: Localnet, ipam: None, `
	for name, test := range map[string]struct {
		to   string
		want refusal
	}{
		"another VLAN": {to: `physicalNetwork: dc, vlan: 8`},
		"no VLAN":      {to: `physicalNetwork: dc`},
		"another physical network": {`physicalNetwork: storage, vlan: 7`,
			refusal{"spec.physicalNetwork", []string{"physicalNetwork is immutable"}}},
	} {
		t.Run(name, func(t *testing.T) {
			stored := object(t, "Network", "segment", `{`+base+`physicalNetwork: dc, vlan: 7}`)
			create(t, stored)
			changed := object(t, "Network", "segment", `{`+base+test.to+`}`)
			changed.SetResourceVersion(stored.GetResourceVersion())
			test.want.check(t, api.Update(t.Context(), changed, client.DryRunAll))
		})
	}
}

func TestPhysicalNetworksAreAcceptedOrRefused(t *testing.T) {
	with := func(fields string) string {
		return `{clusterNetwork: [{cidr: 10.244.0.0/16}], serviceNetwork: [10.96.0.0/16], ` + fields + `}`
	}
	for name, test := range map[string]struct {
		fields string
		want   refusal
	}{
		"a link, a bridge": {fields: `physicalNetworks: [{name: dc, link: eth1, nodeSelector: {matchLabels: {rack: a}}},
			{name: storage, bridge: br-storage}]`},
		"one link for two": {fields: `physicalNetworks: [{name: a, link: eth1}, {name: b, link: eth1}]`},
		"the name twice": {`physicalNetworks: [{name: dc, link: eth1}, {name: dc, link: eth2}]`,
			refusal{"spec.physicalNetworks[1]", []string{"Duplicate value", "dc"}}},
		"neither link nor bridge": {`physicalNetworks: [{name: dc}]`,
			refusal{"spec.physicalNetworks[0]", []string{"physical network dc needs either link or bridge"}}},
		"link and bridge": {`physicalNetworks: [{name: dc, link: eth1, bridge: br-dc}]`,
			refusal{"spec.physicalNetworks[0]", []string{"physical network dc needs either link or bridge"}}},
		"physnet": {`physicalNetworks: [{name: physnet, link: eth1}]`,
			refusal{"spec.physicalNetworks[0].name", []string{"needs no entry"}}},
		"the integration bridge": {`physicalNetworks: [{name: dc, bridge: br-int}]`,
			refusal{"spec.physicalNetworks[0].bridge", []string{"br-int is OVN's own bridge"}}},
		"the gateway's link": {`gateway: {interface: eth0}, physicalNetworks: [{name: dc, link: eth1}, {name: lan, link: eth0}]`,
			refusal{"spec.physicalNetworks", []string{"link eth0 is the gateway's", "physnet"}}},
		"the gateway's bridge": {fields: `gateway: {interface: br-ex}, physicalNetworks: [{name: lan, bridge: br-ex}]`},
		"a name of two mappings": {`physicalNetworks: [{name: "a,b", link: eth1}]`,
			refusal{"spec.physicalNetworks[0].name", []string{"should match"}}},
		"a long link": {`physicalNetworks: [{name: dc, link: sixteencharacter}]`,
			refusal{"spec.physicalNetworks[0].link", []string{"15"}}},
	} {
		t.Run(name, func(t *testing.T) {
			test.want.check(t, api.Create(t.Context(), object(t, "ClusterNetwork", "default", with(test.fields)), client.DryRunAll))
		})
	}
}
