package migrate

// ovnKubernetesRules are the rules of ovn-kubernetes.
var ovnKubernetesRules = map[string]rule{
	"EgressIP": translated(ovnEgressIP), "EgressFirewall": translated(ovnEgressFirewall),
	"UserDefinedNetwork": translated(userDefinedNetwork), "ClusterUserDefinedNetwork": translated(clusterUserDefinedNetwork),
	"EgressQoS":  translated(ovnEgressQoS),
	"NetworkQoS": cannot("it selects pods of several networks", "write EgressQoSes: docs/user/egressqos.md"),
	"EgressService": cannot("the Service itself requests it",
		"annotate the Service with network.weft.dev/egress-source=LoadBalancer: docs/user/loadbalancer.md"),
	"AdminPolicyBasedExternalRoute": translated(externalRoute),
	"RouteAdvertisements":           translated(routeAdvertisements),
	"ClusterNetworkConnect":         cannot("Networks of Weft do not reach each other", "attach the pods to both Networks"),
	"VTEP":                          cannot("Weft has no EVPN", "use a Localnet Network"),
}

// kubeOVNRules are the rules of kube-ovn.
var kubeOVNRules = map[string]rule{
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
}

// calicoRules are the rules of Calico.
var calicoRules = map[string]rule{
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
}

// tigeraRules are the rules of Calico's operator.
var tigeraRules = map[string]rule{
	"Installation": translated(installation), "APIServer": unneeded("the installation of Calico"),
	"TigeraStatus": unneeded("state of Calico"), "ImageSet": unneeded("the installation of Calico"),
	"Goldmane": unneeded("the installation of Calico"), "Whisker": unneeded("the installation of Calico"),
}

// ciliumRules are the rules of Cilium.
var ciliumRules = map[string]rule{
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
}

// metalLBRules are the rules of MetalLB.
var metalLBRules = map[string]rule{
	"IPAddressPool": translated(metalLBPool), "L2Advertisement": translated(l2Advertisement),
	"AddressPool": cannot("it is of an older version of MetalLB", "make it an IPAddressPool, and run the command again"),
	"BGPPeer":     translated(metalLBPeer), "BGPAdvertisement": translated(metalLBAdvertisement),
	"BFDProfile":      unneeded("its intervals become a part of the BGPPeers that name it"),
	"Community":       unneeded("its communities become a part of the BGPAdvertisements that name them"),
	"ServiceL2Status": unneeded("state of MetalLB"), "ServiceBGPStatus": unneeded("state of MetalLB"),
	"ConfigurationState": unneeded("state of MetalLB"), "BGPSessionState": unneeded("state of MetalLB"),
}

// multusRules are the rules of Multus and the Network Plumbing Working Group.
var multusRules = map[string]rule{
	"NetworkAttachmentDefinition": translated(definition), "IPAMClaim": kept("Networks of Weft keep the addresses of claims"),
	"MultiNetworkPolicy": kept("Weft implements it for Networks of its own"),
}

// clusterPolicyRules are the rules of the policies of the network policy API.
var clusterPolicyRules = map[string]rule{
	"AdminNetworkPolicy": kept("Weft implements it"), "BaselineAdminNetworkPolicy": kept("Weft implements it"),
	"ClusterNetworkPolicy": kept("Weft implements it"),
}
