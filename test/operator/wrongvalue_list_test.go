package operator

import "strings"

// legalValues take effect, and are right for somebody: "Kind path value", or "Kind path" for all accepted values -> reason.
var legalValues = map[string]string{
	"ClusterNetwork mtu 1280":                                                    "all links carry it",
	"ClusterNetwork encapsulation.networks[]":                                    "an agent without such an address keeps its tunnels",
	"ClusterNetwork physicalNetworks[].name":                                     "see TestAPhysicalNetworkStaysWhilePodsUseIt",
	"ClusterNetwork physicalNetworks[].link":                                     "as name",
	"ClusterNetwork physicalNetworks[].nodeSelector {matchLabels: {rack: none}}": "as name",
	"ClusterNetwork physicalNetworks[] (empty)":                                  "as name",

	"EgressFirewall egress[] (empty)":         "no rules",
	"EgressFirewall egress[].ports[] (empty)": "all ports",
	"EgressFirewall egress[].ports[] (twice)": "the same ports",

	"ClusterNetwork zones[].nodeSelector {none: such}": "a zone for nodes to come",

	"Network vlan 200": "running pods follow, as documented",
	"Network mtu 9000": "status.mtu is the largest that fits",

	"EgressQoS egress[].bandwidth.rate 2147483647":               "more than links carry",
	"EgressQoS egress[].podSelector {matchLabels: {none: such}}": "a selector for pods to come",

	"EgressIP namespaceSelector {matchLabels: {none: such}}": "a selector for pods to come",
	"EgressIP podSelector {matchLabels: {none: such}}":       "a selector for pods to come",

	"ExternalRoute namespaceSelector {matchLabels: {none: such}}": "a selector for pods to come",
	"ExternalRoute podSelector {matchLabels: {none: such}}":       "a selector for pods to come",

	"IPPool ranges[].addresses 192.0.2.100": "the older of an IPPool and an EgressIP has the address, as documented",

	"BGPPeer peerAddress":   "only a session shows whether a router is there; the condition Established names the fields",
	"BGPPeer peerASN":       "as peerAddress",
	"BGPPeer myASN":         "as peerAddress",
	"BGPPeer sourceAddress": "as peerAddress",
	"BGPPeer passwordKey":   "as peerAddress",
	"BGPPeer nodeSelector {matchLabels: {none: such}}": "a selector for nodes to come",

	"BGPAdvertisement loadBalancers.pools[]":                                       "the condition names a pool that does not exist",
	"BGPAdvertisement peers[]":                                                     "the condition names a peer that does not exist",
	"BGPAdvertisement loadBalancers.poolSelector {matchLabels: {none: such}}":      "a selector for pools to come",
	"BGPAdvertisement loadBalancers.serviceSelector {matchLabels: {none: such}}":   "a selector for Services to come",
	"BGPAdvertisement loadBalancers.namespaceSelector {matchLabels: {none: such}}": "a selector for namespaces to come",
	"BGPAdvertisement egressIPs.selector {matchLabels: {none: such}}":              "a selector for EgressIPs to come",
	"BGPAdvertisement nodeSelector {matchLabels: {none: such}}":                    "a selector for nodes to come",
	"BGPAdvertisement aggregationLength 8":                                         "a wide aggregate, as documented",
	"BGPAdvertisement localPreference 2147483647":                                  "a preference",
}

// quietValues change nothing that works, and are right for somebody, so that no condition names them.
var quietValues = map[string]string{
	"ClusterNetwork gateway.maxMoving 2147483647":      "all nodes at once",
	"ClusterNetwork upgrade.maxUnavailable 2147483647": "all nodes at once",
	"ClusterNetwork dns.nameservers[] (twice)":         "the same server",
	"ClusterNetwork reservedPorts[] (empty)":           "there were none",
	"ClusterNetwork zones[] (empty)":                   "there were none",

	"ExternalRoute nextHops.pods[] (empty)": "there were none",

	"EgressFirewall egress[] (twice)": "the same rule",

	"EgressQoS egress[] (twice)": "the same rule",

	"BGPAdvertisement communities[] (empty)": "there were none",

	"ClusterNetwork databases.relays.nodeSelector {none: such}": "there are no relays",

	"Network excludeSubnets[]": "attachments keep addresses that are excluded later",

	"IPPool ranges[].nodeSelector {matchLabels: {rack: none}}": "pods keep their addresses",
	"IPPool namespaces": "pods keep their addresses",

	"ExternalRoute nextHops.pods[].namespaceSelector {matchLabels: {none: such}}": "routers to come",
	"ExternalRoute nextHops.pods[].podSelector {matchLabels: {none: such}}":       "routers to come",
	"ExternalRoute nextHops.pods[].network default/none":                          "routers to come",

	"LoadBalancerPool loadBalancerClass weft.dev/other":              "Services keep their addresses",
	"LoadBalancerPool serviceSelector {matchLabels: {none: such}}":   "Services keep their addresses",
	"LoadBalancerPool namespaceSelector {matchLabels: {none: such}}": "Services keep their addresses",
}

// wrongValues are the wrong values of each field, in YAML: kind -> path -> values. valuesOf adds wrong values of each type.
var wrongValues = map[string]map[string][]string{
	"ClusterNetwork": {
		"clusterNetwork[].cidr": {"10.96.0.0/12", "192.0.2.0/24", "10.245.0.0/16", "10.244.0.0/17", "10.0.0.0/8",
			"fd00:1::/48", "10.244.0.0"},
		"clusterNetwork[].hostPrefix":           {"25", "16", "64", "31"},
		"serviceNetwork[]":                      {"10.97.0.0/16", "10.96.0.0/20", "10.244.0.0/24", "fd00:99::/112", "192.0.2.0/24", "null"},
		"joinSubnet[]":                          {"100.65.0.0/16", "100.64.0.0/25", "10.244.0.0/24", "fd99::/64", "null"},
		"mtu":                                   {"9000", "100", "1280", "65001"},
		"encapsulation.networks[]":              {"198.51.100.0/24", "fd00:5::/64", "10.244.0.0/16", "192.0.2.0/33"},
		"gateway.mode":                          {"Bridge"},
		"gateway.interface":                     {"eth9", "a b", "abcdefghijklmnopq"},
		"gateway.nextHops[]":                    {"10.244.0.9", "192.0.2.256", "127.0.0.1", "0.0.0.0", "224.0.0.1"},
		"gateway.overrides[].mode":              {"Both"},
		"gateway.overrides[].interface":         {"a b"},
		"gateway.overrides[].nextHops[]":        {"10.96.0.9"},
		"physicalNetworks[].name":               {"physnet", "lan"},
		"physicalNetworks[].nodeSelector":       {"{matchLabels: {rack: none}}"},
		"physicalNetworks[].link":               {"eth9", "a b", "null"},
		"physicalNetworks[].bridge":             {"br-int", "br-ex"},
		"dns.nameservers[]":                     {"nope"},
		"dns.domain":                            {"-bad-", "a b"},
		"reservedPorts[].port":                  {"0", "65536"},
		"reservedPorts[].owner":                 {strings.Repeat("x", 64)},
		"hostPorts.range":                       {"0-1", "40000-30000", "x"},
		"databases.members":                     {"2"},
		"databases.relays.count":                {"-2"},
		"databases.relays.nodeSelector":         {"{-bad-: x}", "{none: such}"},
		"upgrade.maxUnavailable":                {"0"},
		"zones[].name":                          {"Z", "-z"},
		"zones[].nodeSelector":                  {"{}", "{-bad-: x}", "{none: such}"},
		"zones[].databases.members":             {"2"},
		"zones[].databases.relays.nodeSelector": {"{-bad-: x}"},
	},
	"Network": {
		"topology":             {"Layer2", "Layer3"},
		"physicalNetwork":      {"none", "physnet"},
		"vlan":                 {"4095", "200"},
		"subnets[].cidr":       {"10.104.0.0/24", "10.103.0.0/25", "fd00:104::/64", "10.103.0.0"},
		"subnets[].hostPrefix": {"26"},
		"excludeSubnets[]":     {"10.104.0.0/24", "10.103.0.0/24", "fd00:103::/64", "10.103.0.2/32"},
		"mtu":                  {"9000", "100"},
		"ipam":                 {"None"},
		"namespaces":           {"{matchLabels: {team: none}}", "null"},
	},
	"IPPool": {
		"location": {"Overlay", "Underlay"},
		"network":  {"shared", "none"},
		"ranges[].addresses": {"192.0.2.11", "10.244.0.5", "192.0.2.100", "192.0.2.30", "192.0.2.220",
			"198.51.100.1-198.51.100.9", "192.0.2.44-192.0.2.47", "192.0.2.47-192.0.2.40", "nope", "fd00:9::1"},
		"ranges[].nodeSelector": {"{matchLabels: {rack: none}}"},
		"namespaces":            {"{matchLabels: {team: none}}", "null"},
	},
	"ExternalRoute": {
		"namespaceSelector":                 {"{matchLabels: {none: such}}"},
		"podSelector":                       {"{matchLabels: {none: such}}"},
		"nextHops.static[].address":         {"192.0.2.11", "198.51.100.1", "10.244.0.4", "fd00:9::1", "127.0.0.1", "nope"},
		"nextHops.static[].bfd":             {"maybe"},
		"nextHops.pods[].namespaceSelector": {"{matchLabels: {none: such}}"},
		"nextHops.pods[].podSelector":       {"{matchLabels: {none: such}}"},
		"nextHops.pods[].network":           {"none", "default/none"},
		"nextHops.pods[].bfd":               {"maybe"},
	},
	"LoadBalancerPool": {
		"addresses[]": {"192.0.2.11", "192.0.2.30", "192.0.2.100",
			"192.0.2.40-192.0.2.47", "10.244.0.0/24", "198.51.100.1", "192.0.2.223", "nope", "fd00:9::1"},
		"loadBalancerClass":    {"other/class", "weft.dev/other"},
		"servicesWithoutClass": {"x"},
		"autoAssign":           {"x"},
		"serviceSelector":      {"{matchLabels: {none: such}}"},
		"namespaceSelector":    {"{matchLabels: {none: such}}"},
		"nodeSelector":         {"{matchLabels: {none: such}}"},
		"announceOnSegment":    {"x"},
	},
	"EgressIP": {
		"egressIPs[]": {"192.0.2.11", "192.0.2.30", "198.51.100.1", "192.0.2.40", "192.0.2.220", "10.244.0.4", "10.96.0.1", "fd00:9::1",
			"nope"},
		"namespaceSelector": {"{matchLabels: {none: such}}"},
		"podSelector":       {"{matchLabels: {none: such}}"},
	},
	"EgressFirewall": {
		"egress[].type":             {"Drop"},
		"egress[].to.cidrSelector":  {"nope", "1.2.3.4", "fd00::/129"},
		"egress[].to.dnsName":       {"a b", `"*"`},
		"egress[].to.nodeSelector":  {"{matchLabels: {none: such}}"},
		"egress[].ports[].protocol": {"ICMP"},
		"egress[].ports[].port":     {"0", "65536"},
		"egress[].ports[].endPort":  {"1"},
	},
	"EgressQoS": {
		"egress[].dscp":            {"64"},
		"egress[].bandwidth.rate":  {"0"},
		"egress[].bandwidth.burst": {"-5"},
		"egress[].dstCIDR":         {"nope", "1.2.3.4"},
		"egress[].podSelector":     {"{matchLabels: {none: such}}"},
	},
	"BGPPeer": {
		"peerAddress":                {"nope", "192.0.2.11", "10.244.0.4", "fd00:9::1", "127.0.0.1"},
		"peerASN":                    {"0", "4294967296"},
		"myASN":                      {"0"},
		"peerPort":                   {"0", "65536"},
		"nodeSelector":               {"{matchLabels: {none: such}}"},
		"sourceAddress":              {"fd00:9::1", "192.0.2.99", "nope"},
		"holdTimeSeconds":            {"1"},
		"keepaliveTimeSeconds":       {"91"},
		"ebgpMultiHop":               {"x"},
		"passwordKey":                {"../x", "none"},
		"gracefulRestartTimeSeconds": {"4096"},
		"bfd.multiHop":               {"x"},
	},
	"BGPAdvertisement": {
		"loadBalancers.pools[]":           {"none", "Bad_"},
		"loadBalancers.poolSelector":      {"{matchLabels: {none: such}}"},
		"loadBalancers.serviceSelector":   {"{matchLabels: {none: such}}"},
		"loadBalancers.namespaceSelector": {"{matchLabels: {none: such}}"},
		"podSubnets":                      {"x"},
		"egressIPs.selector":              {"{matchLabels: {none: such}}"},
		"nodeSelector":                    {"{matchLabels: {none: such}}"},
		"peers[]":                         {"none", "Bad_"},
		"aggregationLength":               {"33", "8"},
		"aggregationLengthV6":             {"129"},
		"communities[]":                   {"none", "65536:1"},
	},
	"FloatingIP": {
		"address": {"192.0.2.41", "192.0.2.11"},
		"pool":    {"none", "private-nat"},
	},
}
