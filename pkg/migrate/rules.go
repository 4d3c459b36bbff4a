package migrate

import (
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// rule says what happens to the objects of a kind: a fixed outcome, or a translator that decides.
type rule struct {
	outcome      Outcome
	reason, next string
	translate    func(*item)
}

// State kinds have an object for each pod or node, and nothing that a user wrote. They are counted, not read.
const stateReason = "state of the network, which Weft keeps elsewhere"

const (
	noGateways  = "Weft has no gateways of namespaces"
	noVPC       = "it is of a router of its own, and Weft has one router for all pods"
	noBGP       = "this command does not translate BGP"
	noProxy     = "Weft does not look into connections"
	bgpNext     = "create BGPPeers and BGPAdvertisements: docs/user/bgp.md"
	egressNext  = "see whether an EgressIP serves: docs/user/egress.md"
	serviceNext = "use a Service of type LoadBalancer with a LoadBalancerPool"
)

func cannot(reason, next string) rule { return rule{outcome: Cannot, reason: reason, next: next} }

func unneeded(reason string) rule { return rule{outcome: NotNeeded, reason: reason} }

func kept(reason string) rule { return rule{outcome: Kept, reason: reason} }

func translated(by func(*item)) rule { return rule{translate: by} }

// rules has the kinds with objects that users write.
var rules = map[schema.GroupKind]rule{}

// stateKinds are counted, not read.
var stateKinds = map[schema.GroupKind]rule{}

func init() {
	add := func(group string, kinds map[string]rule) {
		for kind, r := range kinds {
			rules[schema.GroupKind{Group: group, Kind: kind}] = r
		}
	}
	count := func(group string, r rule, kinds ...string) {
		for _, kind := range kinds {
			stateKinds[schema.GroupKind{Group: group, Kind: kind}] = r
		}
	}
	add("k8s.ovn.org", map[string]rule{
		"EgressIP": translated(ovnEgressIP), "EgressFirewall": translated(ovnEgressFirewall),
		"UserDefinedNetwork": translated(userDefinedNetwork), "ClusterUserDefinedNetwork": translated(clusterUserDefinedNetwork),
		"EgressQoS":                     translated(ovnEgressQoS),
		"NetworkQoS":                    cannot("it selects pods of several networks", "write EgressQoSes: docs/user/egressqos.md"),
		"EgressService":                 cannot("Weft's pods leave with addresses of EgressIPs, not of Services", egressNext),
		"AdminPolicyBasedExternalRoute": cannot(noGateways, "route in the network outside, by the address of an EgressIP"),
		"RouteAdvertisements":           cannot(noBGP, bgpNext),
		"ClusterNetworkConnect":         cannot("Networks of Weft do not reach each other", "attach the pods to both Networks"),
		"VTEP":                          cannot("Weft has no EVPN", "use a Localnet Network"),
	})
	add("config.openshift.io", map[string]rule{"Network": translated(openShiftNetwork)})
	add("kubeovn.io", map[string]rule{
		"Subnet": translated(subnet), "Vlan": translated(vlan), "ProviderNetwork": translated(providerNetwork), "Vpc": translated(vpc),
		"IPPool": translated(kubeOVNPool), "OvnFip": translated(ovnFIP), "OvnSnatRule": translated(ovnSNAT), "OvnEip": translated(ovnEIP),
		"OvnDnatRule":                cannot("addresses outside lead to Services", serviceNext),
		"IptablesEIP":                cannot(noVPC, "use an EgressIP or an IPPool of location NAT"),
		"IptablesFIPRule":            cannot(noVPC, "use an IPPool of location NAT"),
		"IptablesSnatRule":           cannot(noVPC, "use an EgressIP"),
		"IptablesDnatRule":           cannot(noVPC, serviceNext),
		"VpcNatGateway":              cannot(noVPC, "use EgressIPs and IPPools of location NAT"),
		"VpcEgressGateway":           cannot(noVPC, egressNext),
		"VpcDns":                     cannot(noVPC, "pods use the cluster's DNS"),
		"SwitchLBRule":               cannot("addresses of load balancers are those of Services", "use a Service"),
		"SecurityGroup":              cannot("Weft has policies by labels, not groups by annotation", "write NetworkPolicies"),
		"QoSPolicy":                  cannot("Weft limits pods by annotation", "annotate pods with kubernetes.io/egress-bandwidth"),
		"Vip":                        cannot("Weft has no virtual addresses between pods", "use a Service, or an IPPool"),
		"BgpConf":                    cannot(noBGP, bgpNext),
		"EvpnConf":                   cannot("Weft has no EVPN", "use a Localnet Network"),
		"BgpEdgeRouter":              cannot(noBGP, bgpNext),
		"DNSNameResolver":            unneeded("Weft's operator resolves the names of EgressFirewalls"),
		"RouterLBRule":               cannot(noVPC, serviceNext),
		"VpcEndpoint":                cannot(noVPC, "pods of the cluster reach each other"),
		"VpcIPsecGateway":            cannot(noVPC, "encrypt outside of the cluster"),
		"VtepBinding":                cannot("Weft has no VTEP gateways", "use a Localnet Network"),
		"BgpEdgeRouterAdvertisement": cannot(noBGP, bgpNext),
	})
	count("kubeovn.io", unneeded(stateReason), "IP")
	for _, group := range []string{calicoGroup, "projectcalico.org"} {
		add(group, map[string]rule{
			"IPPool": translated(calicoPool), "NetworkPolicy": translated(calicoPolicy), "GlobalNetworkPolicy": translated(calicoPolicy),
			"FelixConfiguration": translated(felixConfiguration), "BGPConfiguration": translated(bgpConfiguration),
			"ClusterInformation": translated(clusterInformation), "Tier": translated(calicoTier),
			"NetworkSet":       unneeded("its networks become a part of the policies that select it"),
			"GlobalNetworkSet": unneeded("its networks become a part of the policies that select it"),
			"BGPPeer":          cannot(noBGP, bgpNext), "BGPFilter": cannot(noBGP, bgpNext),
			"HostEndpoint": cannot("Weft does not filter hosts", "use the hosts' own firewall"),
			"IPReservation": cannot("addresses cannot be kept from the nodes' subnets",
				"make them an IPPool of location Overlay without namespaces"),
			"StagedNetworkPolicy":           unneeded("it is not in force"),
			"StagedGlobalNetworkPolicy":     unneeded("it is not in force"),
			"StagedKubernetesNetworkPolicy": unneeded("it is not in force"),
			"KubeControllersConfiguration":  unneeded("settings of Calico's controllers"),
			"IPAMConfig":                    unneeded("settings of Calico's addresses"),
			"IPAMConfiguration":             unneeded("settings of Calico's addresses"),
			"CalicoNodeStatus":              unneeded("state of Calico"), "Profile": unneeded("made by Calico of namespaces"),
			"Node": unneeded("state of Calico"), "WorkloadEndpoint": unneeded(stateReason),
		})
		count(group, unneeded(stateReason), "IPAMBlock", "BlockAffinity", "IPAMHandle")
	}
	add("operator.tigera.io", map[string]rule{
		"Installation": translated(installation), "APIServer": unneeded("the installation of Calico"),
		"TigeraStatus": unneeded("state of Calico"), "ImageSet": unneeded("the installation of Calico"),
		"Goldmane": unneeded("the installation of Calico"), "Whisker": unneeded("the installation of Calico"),
	})
	add("cilium.io", map[string]rule{
		"CiliumNetworkPolicy": translated(ciliumPolicy), "CiliumClusterwideNetworkPolicy": translated(ciliumPolicy),
		"CiliumEgressGatewayPolicy": translated(ciliumEgress), "CiliumLoadBalancerIPPool": translated(ciliumPool),
		"CiliumL2AnnouncementPolicy": translated(ciliumAnnouncement), "CiliumPodIPPool": translated(ciliumPodPool),
		"CiliumCIDRGroup":              unneeded("its networks become a part of the policies that name it"),
		"CiliumNode":                   unneeded("state of the nodes; their subnets are kept where they fit"),
		"CiliumBGPPeeringPolicy":       cannot(noBGP, bgpNext),
		"CiliumBGPClusterConfig":       cannot(noBGP, bgpNext),
		"CiliumBGPPeerConfig":          cannot(noBGP, bgpNext),
		"CiliumBGPAdvertisement":       cannot(noBGP, bgpNext),
		"CiliumBGPNodeConfig":          cannot(noBGP, bgpNext),
		"CiliumBGPNodeConfigOverride":  cannot(noBGP, bgpNext),
		"CiliumEnvoyConfig":            cannot(noProxy, "use a proxy of its own"),
		"CiliumClusterwideEnvoyConfig": cannot(noProxy, "use a proxy of its own"),
		"CiliumGatewayClassConfig":     cannot(noProxy, "use another controller of Gateways"),
		"CiliumLocalRedirectPolicy":    cannot("Weft has no local redirects", "use a Service with internalTrafficPolicy: Local"),
		"CiliumNodeConfig":             unneeded("settings of Cilium's agents"),
		"CiliumExternalWorkload":       cannot("Weft connects pods and nodes only", "connect it by the network outside"),
		"CiliumVTEPConfig":             cannot("Weft has no VTEP gateways", "use a Localnet Network"),
	})
	count("cilium.io", unneeded(stateReason), "CiliumEndpoint", "CiliumEndpointSlice", "CiliumIdentity")
	add("metallb.io", map[string]rule{
		"IPAddressPool": translated(metalLBPool), "L2Advertisement": translated(l2Advertisement),
		"AddressPool": cannot("it is of an older version of MetalLB", "make it an IPAddressPool, and run the command again"),
		"BGPPeer":     cannot(noBGP, bgpNext), "BGPAdvertisement": cannot(noBGP, bgpNext),
		"BFDProfile": cannot("Weft has no BFD", "rely on the hold time of the BGPPeer"),
		"Community":  cannot(noBGP, bgpNext), "ServiceL2Status": unneeded("state of MetalLB"), "ServiceBGPStatus": unneeded("state of MetalLB"),
		"ConfigurationState": unneeded("state of MetalLB"), "BGPSessionState": unneeded("state of MetalLB"),
	})
	add("k8s.cni.cncf.io", map[string]rule{
		"NetworkAttachmentDefinition": translated(definition), "IPAMClaim": kept("Networks of Weft keep the addresses of claims"),
		"MultiNetworkPolicy": kept("Weft implements it for Networks of its own"),
	})
	add("policy.networking.k8s.io", map[string]rule{
		"AdminNetworkPolicy": kept("Weft implements it"), "BaselineAdminNetworkPolicy": kept("Weft implements it"),
		"ClusterNetworkPolicy": kept("Weft implements it"),
	})
	count("networking.k8s.io", kept("Weft implements it"), "NetworkPolicy")
	count("k8s.ovn.org", unneeded("a record of the addresses of names"), "DNSNameResolver")
}

// Wanted reports whether the objects of a kind are read, or counted.
func Wanted(k schema.GroupKind) (read, counted bool) {
	if _, ok := stateKinds[k]; ok {
		return false, true
	}
	_, known := rules[k]
	_, ofNetwork := groups[k.Group]
	return known || ofNetwork || k.Group == "metallb.io" || k == serviceCIDR, false
}

// ConfigMaps are the names of the ConfigMaps that are read, in all namespaces that have programs of networks.
var ConfigMaps = []string{"ovn-config", "calico-config", "canal-config", "cilium-config", "kube-flannel-cfg", "kubeadm-config"}

// facts reads the configuration of the cluster's network.
func (in *inspector) facts() {
	read := map[network]func(){ovnKubernetes: in.ovnKubernetesFacts, kubeOVN: in.kubeOVNFacts, calico: in.calicoFacts,
		cilium: in.ciliumFacts, flannel: in.flannelFacts}[in.network]
	if read != nil {
		read()
	}
}

// counts gives the objects that were only counted their outcome.
func (in *inspector) counts() {
	kinds := slices.SortedFunc(maps.Keys(in.cluster.Counts), func(a, b schema.GroupKind) int {
		return slices.Compare([]string{a.Group, a.Kind}, []string{b.Group, b.Kind})
	})
	for _, k := range kinds {
		if n := in.cluster.Counts[k]; n > 0 {
			r := stateKinds[k]
			e := in.entry(fmt.Sprintf("%s *", kindName(k)))
			e.Count, e.Outcome, e.Reason = n, r.outcome, r.reason
		}
	}
	for k, r := range stateKinds { // of files
		for range in.byKind[k] {
			e := in.entry(fmt.Sprintf("%s *", kindName(k)))
			if e.Outcome == "" {
				e.Count = 0
			}
			e.Count, e.Outcome, e.Reason = e.Count+1, r.outcome, r.reason
		}
	}
}
