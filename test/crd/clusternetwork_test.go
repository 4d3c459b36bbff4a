package crd

import (
	"os"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weft-network/weft/apis/network/v1alpha1"
)

// Specs of which the cases below change one field.
const (
	ipv4 = `{clusterNetwork: [{cidr: 10.244.0.0/16, hostPrefix: 24}], serviceNetwork: [10.96.0.0/16]}`
	ipv6 = `{clusterNetwork: [{cidr: "fd00:10:244::/48", hostPrefix: 64}], serviceNetwork: ["fd00:10:96::/112"]}`
	dual = `{clusterNetwork: [{cidr: 10.244.0.0/16}, {cidr: "fd00:10:244::/48"}], serviceNetwork: [10.96.0.0/16, "fd00:10:96::/112"]}`
)

// with4 is the spec ipv4 with more fields.
func with4(fields string) string { return ipv4[:len(ipv4)-1] + ", " + fields + "}" }

// with6 is the spec ipv6 with more fields.
func with6(fields string) string { return ipv6[:len(ipv6)-1] + ", " + fields + "}" }

// cluster4 is a spec with these entries of clusterNetwork and an IPv4 service network.
func cluster4(entries string) string {
	return "{clusterNetwork: [" + entries + "], serviceNetwork: [10.96.0.0/16]}"
}

// cluster6 is a spec with these entries of clusterNetwork and an IPv6 service network.
func cluster6(entries string) string {
	return "{clusterNetwork: [" + entries + `], serviceNetwork: ["fd00:10:96::/112"]}`
}

// services is a dual-stack spec with this service network.
func services(cidrs string) string {
	return `{clusterNetwork: [{cidr: 10.244.0.0/16}, {cidr: "fd00:10:244::/48"}], serviceNetwork: [` + cidrs + "]}"
}

// hostPortRange is the refusal of a range of host ports.
func hostPortRange(says string) refusal { return refusal{"spec.hostPorts.range", []string{says}} }

func TestClusterNetworkIsAcceptedOrRefused(t *testing.T) {
	for name, test := range map[string]struct {
		spec string
		want refusal
	}{
		"IPv4":       {spec: ipv4},
		"IPv6":       {spec: ipv6},
		"dual stack": {spec: dual},
		"eight entries": {spec: cluster4(`{cidr: 10.0.0.0/16}, {cidr: 10.1.0.0/16}, {cidr: 10.2.0.0/16}, {cidr: 10.3.0.0/16},
			{cidr: 10.4.0.0/16}, {cidr: 10.5.0.0/16}, {cidr: 10.6.0.0/16}, {cidr: 10.7.0.0/16}`)},
		"entries of different hostPrefix": {spec: cluster4(`{cidr: 10.0.0.0/16, hostPrefix: 23}, {cidr: 10.1.0.0/16, hostPrefix: 26}`)},
		"every field": {spec: with4(`joinSubnet: [100.88.0.0/16], mtu: 1400, encapsulation: {type: Geneve},
			gateway: {mode: Local, interface: br-ex, nextHops: [192.0.2.1, "2001:db8::1"],
				nodePortAddresses: [192.0.2.0/24, "::/0"]}, podRecord: Always, attachmentProvider: Multus`)},

		"a link-local next hop": {spec: with4(`gateway: {nextHops: ["fe80::1"]}`)},
		"components": {spec: with4(`components: {operator: {logLevel: Debug, logFormat: Text, egressIPProbes: {interval: 500ms, misses: 5}},
			agent: {delegates: false, paths: {cniConfDir: /var/lib/k3s/net.d, criSocket: /run/k3s/containerd/containerd.sock},
				containers: [{name: agent, resources: {requests: {cpu: "0.5", memory: 64Mi}, limits: {cpu: "1", memory: 1Gi}},
					env: [{name: GOMEMLIMIT, value: 900MiB}]}]}, ike: {containers: [{name: charon}]}}`)},
		"a log level of nothing": {with4(`components: {openVSwitch: {logLevel: Loud}}`),
			refusal{"spec.components.openVSwitch.logLevel", []string{`"Loud"`}}},
		"a container of another component": {with4(`components: {agent: {containers: [{name: operator}]}}`),
			refusal{"spec.components.agent.containers", []string{"the agent has one container: agent"}}},
		"a request above its limit": {with4(`components: {central: {containers: [
			{name: nb, resources: {requests: {memory: 2Gi}, limits: {memory: 1Gi}}}]}}`),
			refusal{"spec.components.central.containers[0].resources.requests", []string{"requests.memory must not be more than limits.memory"}}},
		"a small limit": {with4(`components: {central: {containers: [{name: nb, resources: {limits: {memory: "256"}}}]}}`),
			refusal{"spec.components.central.containers[0].resources.limits.memory", []string{"at least 16Mi"}}},
		"memory without a number": {with4(`components: {central: {containers: [{name: nb, resources: {limits: {memory: much}}}]}}`),
			refusal{"spec.components.central.containers[0].resources.limits.memory", []string{"at least 16Mi"}}},
		"CPUs without a number": {with4(`components: {ovnController: {containers: [{name: controller, resources: {limits: {cpu: all}}}]}}`),
			refusal{"spec.components.ovnController.containers[0].resources.limits.cpu", []string{"should match"}}},
		"a variable of Weft": {with4(`components: {operator: {containers: [{name: operator, env: [{name: WEFT_NB, value: x}]}]}}`),
			refusal{"spec.components.operator.containers[0].env[0].name", []string{"Weft sets this variable"}}},
		"a variable with a wrong name": {with4(`components: {operator: {containers: [{name: operator, env: [{name: "A-B", value: x}]}]}}`),
			refusal{"spec.components.operator.containers[0].env[0].name", []string{"letters, digits and _"}}},
		"a relative path": {with4(`components: {agent: {paths: {cniBinDir: opt/cni}}}`),
			refusal{"spec.components.agent.paths.cniBinDir", []string{"absolute path"}}},
		"a path upwards": {with4(`components: {agent: {paths: {cniBinDir: /opt/cni/../bin}}}`),
			refusal{"spec.components.agent.paths.cniBinDir", []string{"which are not . or .."}}},
		"the agent's own path": {with4(`components: {agent: {paths: {cniConfDir: /usr/bin/cni}}}`),
			refusal{"spec.components.agent.paths.cniConfDir", []string{"the agent's own files"}}},
		"a socket in a directory of all": {with4(`components: {agent: {paths: {criSocket: /run/crio.sock}}}`),
			refusal{"spec.components.agent.paths.criSocket", []string{"/run/crio/crio.sock"}}},
		"probes without a pause": {with4(`components: {operator: {egressIPProbes: {interval: 1ms}}}`),
			refusal{"spec.components.operator.egressIPProbes.interval", []string{"100ms to 1m"}}},
		"probes at no time": {with4(`components: {operator: {egressIPProbes: {interval: soon}}}`),
			refusal{"spec.components.operator.egressIPProbes.interval", []string{"duration"}}},
		"a next hop of the host itself": {with4(`gateway: {nextHops: [127.0.0.1]}`),
			refusal{"spec.gateway.nextHops", []string{"127.0.0.1 is not the address of a router"}}},
		"a multicast next hop of some nodes": {with4(`gateway: {overrides: [{nodeSelector: {}, nextHops: [224.0.0.1]}]}`),
			refusal{"spec.gateway.overrides[0].nextHops", []string{"224.0.0.1"}}},
		"tunnels in a network of pods": {with4(`encapsulation: {networks: [10.244.128.0/17]}`),
			refusal{"spec.encapsulation.networks", []string{"must not overlap"}}},
		"tunnels in a network of services": {with4(`encapsulation: {networks: [10.0.0.0/8]}`),
			refusal{"spec.encapsulation.networks", []string{"must not overlap"}}},
		"tunnels in the join network": {with4(`encapsulation: {networks: [100.64.1.0/24]}`),
			refusal{"spec.encapsulation.networks", []string{"must not overlap"}}},

		"no clusterNetwork":    {`{serviceNetwork: [10.96.0.0/16]}`, refusal{"spec.clusterNetwork", []string{"Required"}}},
		"empty clusterNetwork": {cluster4(""), refusal{"spec.clusterNetwork", []string{"at least 1 items"}}},
		"no serviceNetwork":    {spec: `{clusterNetwork: [{cidr: 10.244.0.0/16}]}`},
		"empty serviceNetwork": {spec: services("")},
		"empty joinSubnet":     {with4(`joinSubnet: []`), refusal{"spec.joinSubnet", []string{"at least 1 items"}}},

		"nine entries": {cluster4(`{cidr: 10.0.0.0/16}, {cidr: 10.1.0.0/16}, {cidr: 10.2.0.0/16}, {cidr: 10.3.0.0/16}, {cidr: 10.4.0.0/16},
			{cidr: 10.5.0.0/16}, {cidr: 10.6.0.0/16}, {cidr: 10.7.0.0/16}, {cidr: 10.8.0.0/16}`),
			refusal{"spec.clusterNetwork", []string{"at most 8 items"}}},
		"three serviceNetworks": {services(`10.96.0.0/16, "fd00:10:96::/112", 10.97.0.0/16`),
			refusal{"spec.serviceNetwork", []string{"at most 2 items"}}},

		"cidr that is a word": {cluster4(`{cidr: 10.244.0.0/16}, {cidr: pods}`),
			refusal{"spec.clusterNetwork[1].cidr", []string{`"pods" is not an IPv4 or IPv6 CIDR`}}},
		"empty cidr": {cluster4(`{cidr: 10.244.0.0/16}, {cidr: ""}`),
			refusal{"spec.clusterNetwork[1].cidr", []string{`"" is not`}}},
		"cidr without a prefix": {cluster4(`{cidr: 10.244.0.0/16}, {cidr: 10.1.0.0}`),
			refusal{"spec.clusterNetwork[1].cidr", []string{`"10.1.0.0" is not`}}},
		"cidr with a prefix too long": {cluster4(`{cidr: 10.244.0.0/16}, {cidr: 10.1.0.0/33}`),
			refusal{"spec.clusterNetwork[1].cidr", []string{`"10.1.0.0/33" is not`}}},
		"the only cidr malformed": {cluster4(`{cidr: 10.244.0.0}`),
			refusal{"spec.clusterNetwork[0].cidr", []string{`"10.244.0.0" is not`}}},
		"cidr with leading zeros": {cluster4(`{cidr: 10.244.0.0/16}, {cidr: 010.1.0.0/16}`),
			refusal{"spec.clusterNetwork[1].cidr", []string{`"010.1.0.0/16" is not`}}},
		"cidr of IPv4 in IPv6": {cluster4(`{cidr: 10.244.0.0/16}, {cidr: "::ffff:10.1.0.0/112"}`),
			refusal{"spec.clusterNetwork[1].cidr", []string{`"::ffff:10.1.0.0/112" is not`}}},
		"cidr with host bits": {cluster4(`{cidr: 10.244.1.0/16}`),
			refusal{"spec.clusterNetwork[0].cidr", []string{"10.244.1.0/16 has host bits"}}},
		"IPv6 cidr with host bits": {cluster6(`{cidr: "fd00:10:244::1/48"}`),
			refusal{"spec.clusterNetwork[0].cidr", []string{"fd00:10:244::1/48 has host bits"}}},
		"loopback cidr": {cluster4(`{cidr: 127.0.0.0/16}`),
			refusal{"spec.clusterNetwork[0].cidr", []string{"127.0.0.0/16 is not a unicast network"}}},
		"multicast cidr": {cluster6(`{cidr: "ff00::/16"}`),
			refusal{"spec.clusterNetwork[0].cidr", []string{"ff00::/16 is not a unicast network"}}},
		"link-local cidr": {cluster6(`{cidr: "fe80::/48"}`),
			refusal{"spec.clusterNetwork[0].cidr", []string{"fe80::/48 is not a unicast network"}}},
		"malformed serviceNetwork": {services(`10.96.0.0/16, "fd00::96"`),
			refusal{"spec.serviceNetwork[1]", []string{`"fd00::96" is not`}}},
		"serviceNetwork with host bits": {services(`10.96.0.1/16, "fd00:10:96::/112"`),
			refusal{"spec.serviceNetwork[0]", []string{"10.96.0.1/16 has host bits"}}},
		"loopback serviceNetwork": {services(`127.0.0.0/16, "fd00:10:96::/112"`),
			refusal{"spec.serviceNetwork[0]", []string{"127.0.0.0/16 is not a unicast network"}}},
		"link-local joinSubnet": {with4(`joinSubnet: [169.254.0.0/17]`),
			refusal{"spec.joinSubnet[0]", []string{"169.254.0.0/17 is not a unicast network"}}},
		"malformed joinSubnet": {with4(`joinSubnet: [join]`),
			refusal{"spec.joinSubnet[0]", []string{`"join" is not`}}},
		"joinSubnet with host bits": {with4(`joinSubnet: [100.64.0.1/16]`),
			refusal{"spec.joinSubnet[0]", []string{"100.64.0.1/16 has host bits"}}},

		"IPv4 hostPrefix one longer":         {spec: cluster4(`{cidr: 10.244.0.0/16, hostPrefix: 17}`)},
		"IPv4 hostPrefix of 29":              {spec: cluster4(`{cidr: 10.244.0.0/16, hostPrefix: 29}`)},
		"IPv6 hostPrefix of 112":             {spec: cluster6(`{cidr: "fd00:10:244::/48", hostPrefix: 112}`)},
		"IPv4 default hostPrefix one longer": {spec: cluster4(`{cidr: 10.244.0.0/23}`)},
		"IPv6 default hostPrefix one longer": {spec: cluster6(`{cidr: "fd00:10:244::/63"}`)},
		"IPv4 hostPrefix as long as the cidr": {cluster4(`{cidr: 10.244.0.0/16, hostPrefix: 16}`),
			refusal{"spec.clusterNetwork[0]", []string{"hostPrefix must be longer than the prefix of cidr 10.244.0.0/16"}}},
		"IPv6 hostPrefix shorter than the cidr": {cluster6(`{cidr: "fd00:10:244::/48", hostPrefix: 24}`),
			refusal{"spec.clusterNetwork[0]", []string{"hostPrefix must be longer than the prefix of cidr fd00:10:244::/48"}}},
		"IPv4 default hostPrefix as long": {cluster4(`{cidr: 10.244.0.0/24}`),
			refusal{"spec.clusterNetwork[0]", []string{"24 by default", "10.244.0.0/24"}}},
		"IPv6 default hostPrefix as long": {cluster6(`{cidr: "fd00:10:244::/64"}`),
			refusal{"spec.clusterNetwork[0]", []string{"64 by default", "fd00:10:244::/64"}}},
		"IPv4 hostPrefix of 30": {cluster4(`{cidr: 10.244.0.0/16, hostPrefix: 30}`),
			refusal{"spec.clusterNetwork[0]", []string{"hostPrefix of 10.244.0.0/16 must be at most 29"}}},
		"IPv6 hostPrefix of 113": {cluster6(`{cidr: "fd00:10:244::/48", hostPrefix: 113}`),
			refusal{"spec.clusterNetwork[0]", []string{"hostPrefix of fd00:10:244::/48 must be at most 112"}}},

		"two clusterNetworks side by side": {spec: cluster4(`{cidr: 10.0.0.0/16}, {cidr: 10.1.0.0/16}`)},
		"clusterNetwork in another": {cluster4(`{cidr: 10.0.0.0/12}, {cidr: 10.3.0.0/16}`),
			refusal{"spec", []string{"clusterNetwork 10.0.0.0/12 overlaps clusterNetwork 10.3.0.0/16"}}},
		"clusterNetwork around another": {cluster6(`{cidr: "fd01:2::/48"}, {cidr: "fd03::/48"}, {cidr: "fd01::/16"}`),
			refusal{"spec", []string{"clusterNetwork fd01::/16 overlaps clusterNetwork fd01:2::/48"}}},
		"clusterNetwork twice": {cluster4(`{cidr: 10.3.0.0/16}, {cidr: 10.3.0.0/16}`),
			refusal{"spec.clusterNetwork[1]", []string{"Duplicate value", "10.3.0.0/16"}}},
		"clusterNetwork twice in other words": {cluster6(`{cidr: "fd01:2::/48"}, {cidr: "FD01:2:0::/48"}`),
			refusal{"spec", []string{"fd01:2::/48", "FD01:2:0::/48"}}},
		"serviceNetwork in clusterNetwork": {services(`10.244.96.0/20, "fd00:10:96::/112"`),
			refusal{"spec", []string{"clusterNetwork 10.244.0.0/16 overlaps serviceNetwork 10.244.96.0/20"}}},
		"serviceNetwork around clusterNetwork": {services(`10.96.0.0/16, "fd00::/16"`),
			refusal{"spec", []string{"clusterNetwork fd00:10:244::/48 overlaps serviceNetwork fd00::/16"}}},
		"serviceNetwork equals clusterNetwork": {services(`10.244.0.0/16, "fd00:10:96::/112"`),
			refusal{"spec", []string{"clusterNetwork 10.244.0.0/16 overlaps serviceNetwork 10.244.0.0/16"}}},
		"clusterNetwork in the default joinSubnet": {cluster4(`{cidr: 100.64.0.0/17}`),
			refusal{"spec", []string{"clusterNetwork 100.64.0.0/17 overlaps joinSubnet 100.64.0.0/16"}}},
		"clusterNetwork around joinSubnet": {cluster4(`{cidr: 100.0.0.0/8}`),
			refusal{"spec", []string{"clusterNetwork 100.0.0.0/8 overlaps joinSubnet 100.64.0.0/16"}}},
		"IPv6 clusterNetwork around joinSubnet": {cluster6(`{cidr: "fd98::/48"}`),
			refusal{"spec", []string{"clusterNetwork fd98::/48 overlaps joinSubnet fd98::/64"}}},
		"serviceNetwork in joinSubnet": {services(`100.64.8.0/24, "fd00:10:96::/112"`),
			refusal{"spec", []string{"serviceNetwork 100.64.8.0/24 overlaps joinSubnet 100.64.0.0/16"}}},
		"serviceNetwork around joinSubnet": {services(`10.96.0.0/16, "fd98::/32"`),
			refusal{"spec", []string{"serviceNetwork fd98::/32 overlaps joinSubnet fd98::/64"}}},

		"IPv6 serviceNetwork alone": {`{clusterNetwork: [{cidr: 10.244.0.0/16}], serviceNetwork: [10.96.0.0/16, "fd00:10:96::/112"]}`,
			refusal{"spec", []string{"serviceNetwork fd00:10:96::/112 needs a clusterNetwork of its address family"}}},
		"IPv4 clusterNetwork alone": {services(`"fd00:10:96::/112"`),
			refusal{"spec", []string{"clusterNetwork 10.244.0.0/16 needs a serviceNetwork of its address family"}}},
		"IPv6 clusterNetwork alone": {services(`10.96.0.0/16`),
			refusal{"spec", []string{"clusterNetwork fd00:10:244::/48 needs a serviceNetwork of its address family"}}},
		"IPv6 clusterNetwork without joinSubnet": {with6(`joinSubnet: [100.64.0.0/16]`),
			refusal{"spec", []string{"clusterNetwork fd00:10:244::/48 needs a joinSubnet of its address family"}}},
		"two IPv4 serviceNetworks": {cluster4(`{cidr: 10.244.0.0/16}`)[:len(cluster4(`{cidr: 10.244.0.0/16}`))-2] + ", 10.97.0.0/16]}",
			refusal{"spec.serviceNetwork", []string{"one CIDR per address family", "10.96.0.0/16", "10.97.0.0/16"}}},
		"two IPv6 joinSubnets": {with6(`joinSubnet: ["fd98::/64", "fd99::/64"]`),
			refusal{"spec.joinSubnet", []string{"one CIDR per address family", "fd98::/64", "fd99::/64"}}},
		"joinSubnet of /24": {spec: with4(`joinSubnet: [100.64.0.0/24]`)},
		"joinSubnet of /25": {with4(`joinSubnet: [100.64.0.0/25]`),
			refusal{"spec.joinSubnet", []string{"joinSubnet 100.64.0.0/25 is too small"}}},
		"IPv6 joinSubnet of /113": {with6(`joinSubnet: ["fd98::/113"]`),
			refusal{"spec.joinSubnet", []string{"joinSubnet fd98::/113 is too small"}}},

		"cidr around link-local": {cluster4(`{cidr: 169.0.0.0/8}`),
			refusal{"spec.clusterNetwork[0].cidr", []string{"169.0.0.0/8 contains 169.254.0.0/16"}}},
		"cidr around loopback": {cluster4(`{cidr: 126.0.0.0/7}`),
			refusal{"spec.clusterNetwork[0].cidr", []string{"126.0.0.0/7 contains 127.0.0.0/8"}}},
		"IPv6 cidr around multicast": {cluster6(`{cidr: "fe00::/8"}`),
			refusal{"spec.clusterNetwork[0].cidr", []string{"fe00::/8 contains fe80::/10"}}},
		"IPv6 cidr around addresses of load balancers": {cluster6(`{cidr: "fd69::/48"}`),
			refusal{"spec.clusterNetwork[0].cidr", []string{"fd69::/48 contains fd69::4/128"}}},
		"serviceNetwork around addresses of load balancers": {services(`10.96.0.0/16, "fd69::/112"`),
			refusal{"spec.serviceNetwork", []string{"fd69::/112 contains", "fd69::4"}}},
		"joinSubnet around link-local": {with4(`joinSubnet: [169.0.0.0/8]`),
			refusal{"spec.joinSubnet", []string{"169.0.0.0/8 contains"}}},

		"the default range of host ports":  {spec: with4(`hostPorts: {}`)},
		"a range of host ports":            {spec: with4(`hostPorts: {range: 20000-20001}`)},
		"one host port":                    {spec: with4(`hostPorts: {range: 20000-20000}`)},
		"the widest range below":           {spec: with4(`hostPorts: {range: 1024-29999}`)},
		"the widest range above":           {spec: with4(`hostPorts: {range: 32768-65535}`)},
		"host ports among the node ports":  {with4(`hostPorts: {range: 25000-30000}`), hostPortRange("25000-30000 overlaps 30000-32767")},
		"host ports within the node ports": {with4(`hostPorts: {range: 31000-31999}`), hostPortRange("31000-31999 overlaps 30000-32767")},
		"host ports around the node ports": {with4(`hostPorts: {range: 20000-40000}`), hostPortRange("20000-40000 overlaps 30000-32767")},
		"privileged host ports":            {with4(`hostPorts: {range: 1023-2000}`), hostPortRange(`"1023-2000" is not a range of ports`)},
		"host ports beyond the last":       {with4(`hostPorts: {range: 40000-65536}`), hostPortRange(`"40000-65536" is not a range of ports`)},
		"host ports backwards":             {with4(`hostPorts: {range: 21000-20000}`), hostPortRange(`"21000-20000" is not a range of ports`)},
		"host ports that are a word":       {with4(`hostPorts: {range: some}`), hostPortRange(`"some" is not a range of ports`)},
		"host ports that are a number":     {with4(`hostPorts: {range: "20000"}`), hostPortRange(`"20000" is not a range of ports`)},
		"empty host ports":                 {with4(`hostPorts: {range: ""}`), hostPortRange(`"" is not a range of ports`)},
		"host ports with more numbers":     {with4(`hostPorts: {range: 2000-3000-4}`), hostPortRange(`is not a range of ports`)},

		"mtu detected":          {spec: with6(`mtu: 0`)},
		"smallest mtu for IPv4": {spec: with4(`mtu: 576`)},
		"smallest mtu for IPv6": {spec: with6(`mtu: 1280`)},
		"largest mtu":           {spec: with4(`mtu: 65000`)},
		"mtu too small":         {with4(`mtu: 575`), refusal{"spec.mtu", []string{"at least 576"}}},
		"mtu too large":         {with4(`mtu: 65001`), refusal{"spec.mtu", []string{"less than or equal to 65000"}}},
		"negative mtu":          {with4(`mtu: -1`), refusal{"spec.mtu", []string{"at least 576"}}},
		"mtu too small for IPv6": {with6(`mtu: 1279`),
			refusal{"spec.mtu", []string{"IPv6 needs an mtu of at least 1280"}}},

		"dns": {spec: with4(`dns: {nameservers: [10.96.0.10, "fd00:10:96::a"], domain: cluster.local}`)},
		"dns server with a port": {with4(`dns: {nameservers: ["10.96.0.10:53"]}`),
			refusal{"spec.dns.nameservers[0]", []string{`"10.96.0.10:53" is not`}}},
		"four dns servers": {with4(`dns: {nameservers: [10.96.0.1, 10.96.0.2, 10.96.0.3, 10.96.0.4]}`),
			refusal{"spec.dns.nameservers", []string{"3 items"}}},
		"dns domain with a dot": {with4(`dns: {nameservers: [10.96.0.10], domain: cluster.local.}`),
			refusal{"spec.dns.domain", []string{"should match"}}},
		"dns domain and no server": {with4(`dns: {domain: cluster.local}`),
			refusal{"spec.dns", []string{"dns.domain needs dns.nameservers"}}},

		"encapsulation VXLAN":  {with4(`encapsulation: {type: VXLAN}`), refusal{"spec.encapsulation.type", []string{`"Geneve"`}}},
		"unknown gateway mode": {with4(`gateway: {mode: local}`), refusal{"spec.gateway.mode", []string{`"Shared"`, `"Local"`}}},
		"no node may move": {with4(`gateway: {maxMoving: 0}`), refusal{"spec.gateway.maxMoving",
			[]string{"greater than or equal to 1"}}},
		"gateway next hop a subnet": {with4(`gateway: {nextHops: [192.0.2.0/24]}`),
			refusal{"spec.gateway.nextHops[0]", []string{`"192.0.2.0/24" is not`}}},
		"two next hops of a family": {with4(`gateway: {nextHops: [192.0.2.1, 192.0.2.2]}`),
			refusal{"spec.gateway.nextHops", []string{"192.0.2.1", "192.0.2.2"}}},
		"next hop in clusterNetwork": {with4(`gateway: {nextHops: [10.244.0.1]}`), refusal{"spec.gateway.nextHops",
			[]string{"gateway.nextHops 10.244.0.1 is in a network"}}},
		"next hop in joinSubnet": {with6(`gateway: {nextHops: ["fd98::1"]}`), refusal{"spec.gateway.nextHops", []string{"fd98::1"}}},
		"next hop of some nodes in serviceNetwork": {with4(`gateway: {overrides: [{nodeSelector: {}, nextHops: [10.96.0.1]}]}`),
			refusal{"spec.gateway.overrides", []string{"gateway.overrides[].nextHops"}}},
		"node port address": {with4(`gateway: {nodePortAddresses: [Primary]}`),
			refusal{"spec.gateway.nodePortAddresses[0]", []string{`"Primary" is neither primary`}}},
		"node port network with host bits": {with4(`gateway: {nodePortAddresses: [192.0.2.1/24]}`),
			refusal{"spec.gateway.nodePortAddresses[0]", []string{"host bits"}}},
		"node ports at primary and more": {with4(`gateway: {nodePortAddresses: [primary, 192.0.2.0/24]}`),
			refusal{"spec.gateway.nodePortAddresses", []string{"must be alone"}}},
		"link name too long":         {with4(`gateway: {interface: enp0s31f6-uplink}`), refusal{"spec.gateway.interface", []string{"15"}}},
		"link name with a slash":     {with4(`gateway: {interface: eth/0}`), refusal{"spec.gateway.interface", []string{"should match"}}},
		"unknown drift.mode":         {with4(`drift: {mode: Ignore}`), refusal{"spec.drift.mode", []string{`"Repair"`, `"Report"`}}},
		"unknown attachmentProvider": {with4(`attachmentProvider: Other`), refusal{"spec.attachmentProvider", []string{`"Weft"`, `"Multus"`}}},
		"unknown podRecord":          {with4(`podRecord: Never`), refusal{"spec.podRecord", []string{`"OnRequest"`, `"Always"`}}},
	} {
		t.Run(name, func(t *testing.T) {
			test.want.check(t, api.Create(t.Context(), clusterNetwork(t, test.spec), client.DryRunAll))
		})
	}
}

func TestClusterNetworkHasOneName(t *testing.T) {
	err := api.Create(t.Context(), object(t, "ClusterNetwork", "other", ipv4), client.DryRunAll)
	refusal{"<nil>", []string{"the only ClusterNetwork is named default, not other"}}.check(t, err)
}

// TestMalformedCIDRDoesNotHideAnOverlap checks that both errors are reported at once, so that a user who corrects
// the CIDR is not refused again.
func TestMalformedCIDRDoesNotHideAnOverlap(t *testing.T) {
	err := api.Create(t.Context(), clusterNetwork(t, cluster4(`{cidr: 10.96.0.0/12}, {cidr: pods}`)), client.DryRunAll)
	causes := causesOf(err)
	if len(causes) != 2 || !strings.Contains(err.Error(), `"pods" is not`) ||
		!strings.Contains(err.Error(), "clusterNetwork 10.96.0.0/12 overlaps serviceNetwork 10.96.0.0/16") {
		t.Errorf("%d causes: %v", len(causes), err)
	}
}

func TestClusterNetworkRefusesUnknownFields(t *testing.T) {
	err := api.Create(t.Context(), clusterNetwork(t, with4(`jointSubnet: [100.64.0.0/16]`)), client.DryRunAll,
		client.FieldValidation("Strict"))
	if err == nil {
		t.Fatal("accepted")
	}
}

func TestClusterNetworkChanges(t *testing.T) {
	for name, test := range map[string]struct {
		from, to string
		want     refusal
	}{
		"nothing": {from: dual, to: dual},
		"an entry appended": {from: ipv4,
			to: cluster4(`{cidr: 10.244.0.0/16, hostPrefix: 24}, {cidr: 10.245.0.0/16, hostPrefix: 26}`)},
		"the default spelled": {from: cluster4(`{cidr: 10.244.0.0/16}`),
			to: cluster4(`{cidr: 10.244.0.0/16, hostPrefix: 24}`)},
		"the default left out":              {from: ipv6, to: cluster6(`{cidr: "fd00:10:244::/48"}`)},
		"joinSubnet spelled as the default": {from: ipv4, to: with4(`joinSubnet: [100.64.0.0/16, "fd98::/64"]`)},
		"mtu, encapsulation, gateway, podRecord and drift": {from: ipv4,
			to: with4(`mtu: 1400, encapsulation: {type: Geneve}, gateway: {mode: Local}, podRecord: Always, drift: {mode: Report}`)},

		"an entry removed": {from: cluster4(`{cidr: 10.1.0.0/16}, {cidr: 10.2.0.0/16}`), to: cluster4(`{cidr: 10.2.0.0/16}`)},
		"the first entry replaced": {from: cluster4(`{cidr: 10.1.0.0/16}, {cidr: 10.2.0.0/16}`),
			to: cluster4(`{cidr: 10.2.0.0/16}, {cidr: 10.3.0.0/16}`)},
		"every entry replaced": {from: ipv4, to: cluster4(`{cidr: 10.245.0.0/16}`)},
		"IPv6 added":           {from: ipv4, to: dual},
		"IPv4 added": {from: ipv6, to: `{clusterNetwork: [{cidr: "fd00:10:244::/48"}, {cidr: 10.244.0.0/16}],
			serviceNetwork: ["fd00:10:96::/112", 10.96.0.0/16]}`},
		"IPv6 removed": {from: dual, to: ipv4},
		"IPv4 removed": {from: dual, to: ipv6},
		"IPv6 added without a service network": {ipv4, `{clusterNetwork: [{cidr: 10.244.0.0/16}, {cidr: "fd00:10:244::/48"}],
			serviceNetwork: [10.96.0.0/16]}`,
			refusal{"spec", []string{"clusterNetwork fd00:10:244::/48 needs a serviceNetwork of its address family"}}},
		"a join network added with its family": {from: with4(`joinSubnet: [100.64.0.0/16]`), to: dual},
		"entries in another order": {cluster4(`{cidr: 10.1.0.0/16}, {cidr: 10.2.0.0/16}`),
			cluster4(`{cidr: 10.2.0.0/16}, {cidr: 10.1.0.0/16}`),
			refusal{"spec.clusterNetwork", []string{"clusterNetwork entries cannot change their order", "append new entries behind the others"}}},
		"an entry put before others": {cluster4(`{cidr: 10.1.0.0/16}, {cidr: 10.2.0.0/16}`),
			cluster4(`{cidr: 10.1.0.0/16}, {cidr: 10.3.0.0/16}, {cidr: 10.2.0.0/16}`),
			refusal{"spec.clusterNetwork", []string{"clusterNetwork entries cannot change their order"}}},
		"an entry widened": {from: ipv4, to: cluster4(`{cidr: 10.244.0.0/15, hostPrefix: 24}`)},
		"hostPrefix changed": {ipv4, cluster4(`{cidr: 10.244.0.0/16, hostPrefix: 25}`),
			refusal{"spec.clusterNetwork[0]", []string{"hostPrefix of clusterNetwork 10.244.0.0/16 is immutable"}}},
		"default hostPrefix changed": {cluster6(`{cidr: "fd00:10:244::/48"}`), cluster6(`{cidr: "fd00:10:244::/48", hostPrefix: 65}`),
			refusal{"spec.clusterNetwork[0]", []string{"hostPrefix of clusterNetwork fd00:10:244::/48 is immutable"}}},
		"an appended entry that overlaps": {ipv4, cluster4(`{cidr: 10.244.0.0/16, hostPrefix: 24}, {cidr: 10.96.128.0/17}`),
			refusal{"spec", []string{"clusterNetwork 10.96.128.0/17 overlaps serviceNetwork 10.96.0.0/16"}}},
		"serviceNetwork changed": {ipv4, `{clusterNetwork: [{cidr: 10.244.0.0/16, hostPrefix: 24}], serviceNetwork: [10.97.0.0/16]}`,
			refusal{"spec.serviceNetwork", []string{"serviceNetwork 10.96.0.0/16 cannot be replaced", "Remove its address family"}}},
		"serviceNetwork given later": {from: `{clusterNetwork: [{cidr: 10.244.0.0/16, hostPrefix: 24}]}`, to: ipv4},
		"serviceNetwork emptied": {ipv4, `{clusterNetwork: [{cidr: 10.244.0.0/16, hostPrefix: 24}]}`,
			refusal{"spec.serviceNetwork", []string{"serviceNetwork cannot be emptied"}}},
		"joinSubnet changed": {ipv4, with4(`joinSubnet: [100.65.0.0/16]`),
			refusal{"spec.joinSubnet", []string{"joinSubnet 100.64.0.0/16 cannot be replaced"}}},
		"joinSubnet left to the default": {with4(`joinSubnet: [100.65.0.0/16]`), ipv4,
			refusal{"spec.joinSubnet", []string{"joinSubnet 100.65.0.0/16 cannot be replaced"}}},
	} {
		t.Run(name, func(t *testing.T) {
			stored := clusterNetwork(t, test.from)
			create(t, stored)
			changed := clusterNetwork(t, test.to)
			changed.SetResourceVersion(stored.GetResourceVersion())
			test.want.check(t, api.Update(t.Context(), changed, client.DryRunAll))
		})
	}
}

// TestServiceNetworkOfTheStatus checks that a spec without serviceNetwork can only get the network that the status has.
func TestServiceNetworkOfTheStatus(t *testing.T) {
	const read = `{clusterNetwork: [{cidr: 10.244.0.0/16, hostPrefix: 24}]}`
	for name, test := range map[string]struct {
		to   string
		want refusal
	}{
		"none":     {to: read},
		"the same": {to: ipv4},
		"another": {strings.Replace(ipv4, "10.96", "10.97", 1),
			refusal{"spec.serviceNetwork", []string{"serviceNetwork is 10.96.0.0/16", "cannot be replaced"}}},
		"an entry that overlaps": {`{clusterNetwork: [{cidr: 10.244.0.0/16, hostPrefix: 24}, {cidr: 10.96.64.0/18}]}`,
			refusal{"spec.clusterNetwork", []string{"an entry of clusterNetwork overlaps status.serviceNetwork 10.96.0.0/16"}}},
		"another entry": {to: `{clusterNetwork: [{cidr: 10.244.0.0/16, hostPrefix: 24}, {cidr: 10.245.0.0/16}]}`},
	} {
		t.Run(name, func(t *testing.T) {
			stored := &v1alpha1.ClusterNetwork{}
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(clusterNetwork(t, read).Object, stored); err != nil {
				t.Fatal(err)
			}
			create(t, stored)
			stored.Status.ServiceNetwork = []v1alpha1.CIDR{"10.96.0.0/16"}
			if err := api.Status().Update(t.Context(), stored); err != nil {
				t.Fatal(err)
			}
			changed := clusterNetwork(t, test.to)
			changed.SetResourceVersion(stored.GetResourceVersion())
			test.want.check(t, api.Update(t.Context(), changed, client.DryRunAll))
		})
	}
}

// TestHeldNetworksCanBeChanged checks that only held networks can be changed. Entries after those in force may be
// added and removed.
func TestHeldNetworksCanBeChanged(t *testing.T) {
	const first, held, another = "{cidr: 10.1.0.0/16}", "{cidr: 10.2.0.0/16}", "{cidr: 10.3.0.0/16}"
	state := func(state v1alpha1.NetworkState, cidrs ...v1alpha1.CIDR) (networks []v1alpha1.NetworkStatus) {
		for _, cidr := range cidrs {
			networks = append(networks, v1alpha1.NetworkStatus{CIDR: cidr, State: state})
		}
		return networks
	}
	whole := []v1alpha1.CIDR{"10.1.0.0/16", "10.2.0.0/16", "10.96.0.0/16", "100.64.0.0/16"}
	inForce := state(v1alpha1.NetworkInForce, "10.1.0.0/16", "10.96.0.0/16", "100.64.0.0/16")
	oneHeld := append(inForce, state(v1alpha1.NetworkHeld, "10.2.0.0/16")...)
	others := strings.Replace(cluster4(another)[:len(cluster4(another))-1], "10.96", "10.97", 1) + ", joinSubnet: [100.65.0.0/16]}"
	for name, test := range map[string]struct {
		networks []v1alpha1.NetworkStatus
		from, to string
		want     refusal
	}{
		"everything": {networks: state(v1alpha1.NetworkHeld, whole...), from: cluster4(first + "," + held), to: others},
		"another order": {networks: state(v1alpha1.NetworkHeld, whole...), from: cluster4(first + "," + held),
			to: cluster4(held + "," + first)},
		"one removed":  {networks: oneHeld, from: cluster4(first + "," + held), to: cluster4(first)},
		"one replaced": {networks: oneHeld, from: cluster4(first + "," + held), to: cluster4(first + "," + another)},
		"one put last": {networks: oneHeld, from: cluster4(first + "," + held), to: cluster4(first + "," + another + "," + held)},
		"one put first": {oneHeld, cluster4(first + "," + held), cluster4(held + "," + first),
			refusal{"spec.clusterNetwork", []string{"clusterNetwork entries cannot change their order"}}},
		"one in force removed": {networks: oneHeld, from: cluster4(first + "," + held), to: cluster4(held)},
		"a join subnet of no family": {networks: inForce, from: cluster4(first), to: cluster4(first)[:len(cluster4(first))-1] +
			`, joinSubnet: [100.64.0.0/16, "fd97::/64"]}`},
		"services of a network in force": {oneHeld, cluster4(first + "," + held),
			strings.Replace(cluster4(first+","+held), "10.96", "10.97", 1),
			refusal{"spec.serviceNetwork", []string{"serviceNetwork 10.96.0.0/16 cannot be replaced"}}},
		"join subnet of a network in force": {oneHeld, cluster4(first), cluster4(first)[:len(cluster4(first))-1] +
			", joinSubnet: [100.65.0.0/16]}",
			refusal{"spec.joinSubnet", []string{"joinSubnet 100.64.0.0/16 cannot be replaced"}}},
		"not judged": {from: cluster4(first), to: cluster4(another)},
	} {
		t.Run(name, func(t *testing.T) {
			stored := &v1alpha1.ClusterNetwork{}
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(clusterNetwork(t, test.from).Object, stored); err != nil {
				t.Fatal(err)
			}
			create(t, stored)
			stored.Status.Networks = test.networks
			if err := api.Status().Update(t.Context(), stored); err != nil {
				t.Fatal(err)
			}
			changed := clusterNetwork(t, test.to)
			changed.SetResourceVersion(stored.GetResourceVersion())
			test.want.check(t, api.Update(t.Context(), changed, client.DryRunAll))
		})
	}
}

func TestSamplesAreAccepted(t *testing.T) {
	for _, families := range []string{".", "ipv6", "dualstack"} {
		t.Run(families, func(t *testing.T) {
			text, err := os.ReadFile("../../config/samples/" + families + "/clusternetwork.yaml")
			if err != nil {
				t.Fatal(err)
			}
			create(t, parse(t, text))
		})
	}
}
