package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The range of node IDs. It is limited because node IDs are part of tunnel keys.
const (
	MinNodeID = 1
	MaxNodeID = 16000
)

// NodeNetwork is a node's part of the network and has the name of its Node. The operator writes spec, the desired
// state. The node's agent writes status, the observed state.
//
// +kubebuilder:object:root=true
// +kubebuilder:metadata:labels="network.weft.dev/goes-after-network=true"
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=nn
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="ID",type=integer,JSONPath=`.spec.nodeID`
// +kubebuilder:printcolumn:name="Subnets",type=string,JSONPath=`.spec.podSubnets`
// +kubebuilder:printcolumn:name="Free",type=integer,JSONPath=`.status.addresses.free`,description="pod addresses not in use"
// +kubebuilder:printcolumn:name="Zone",type=string,priority=1,JSONPath=`.spec.zone`
// +kubebuilder:printcolumn:name="Chassis",type=string,priority=1,JSONPath=`.status.chassis`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type NodeNetwork struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +required
	Spec NodeNetworkSpec `json:"spec"`
	// +optional
	Status NodeNetworkStatus `json:"status,omitempty,omitzero"`
}

// NodeNetworkList is a list of NodeNetworks.
//
// +kubebuilder:object:root=true
type NodeNetworkList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []NodeNetwork `json:"items"`
}

// NodeNetworkSpec is written by the operator and read by the node's agent. It contains everything that the agent
// needs, so that the agent never reads ClusterNetwork.
//
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.nodeID) || (has(self.nodeID) && self.nodeID == oldSelf.nodeID)",message="nodeID is immutable once set",reason=FieldValueForbidden,fieldPath=.nodeID
type NodeNetworkSpec struct {
	// nodeID is the number of the node, 1..16000, unique among the NodeNetworks. It is immutable once set.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=16000
	NodeID int32 `json:"nodeID,omitempty"`

	// podSubnets are the node's pod subnets. Addresses come from the first subnet of a family first. A node gets a
	// further subnet of a family when a pod finds no free address in the others.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=4
	PodSubnets []CIDR `json:"podSubnets,omitempty"`

	// leavingSubnets are the podSubnets whose network was removed from clusterNetwork. No pod gets an address there. The
	// node gives the subnet up when its last pod is gone.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=4
	LeavingSubnets []CIDR `json:"leavingSubnets,omitempty"`

	// gatewayMACAddress is the MAC of gateways if it cannot be derived from them, because podSubnets have changed. A pod
	// keeps the MAC of its gateway.
	// +optional
	GatewayMACAddress MACAddress `json:"gatewayMACAddress,omitempty"`

	// gateways are the addresses of the cluster router in podSubnets, in the same order: the .1 of each subnet.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=4
	Gateways []IP `json:"gateways,omitempty"`

	// joinAddresses are the addresses of the node's gateway router on the join switch, one per family.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=2
	JoinAddresses []InterfaceAddress `json:"joinAddresses,omitempty"`

	// managementPort is the host's own port on the node's switch.
	// +optional
	ManagementPort ManagementPort `json:"managementPort,omitempty,omitzero"`

	// clusterSubnets are the CIDRs of all pods of the cluster. The host routes them to the management port.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	ClusterSubnets []CIDR `json:"clusterSubnets,omitempty"`

	// serviceSubnets are the CIDRs of cluster IPs.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=2
	ServiceSubnets []CIDR `json:"serviceSubnets,omitempty"`

	// mtu is the MTU of pod interfaces and the management port in bytes, or 0 if it is not known yet.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=65000
	MTU int32 `json:"mtu,omitempty"`

	// relays are the addresses of the relays of the southbound database that the node uses, in its own order. If it is
	// empty, the node uses the database itself.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=2
	Relays []IP `json:"relays,omitempty"`

	// zone is the node's zone. It is absent in the default zone.
	// +optional
	Zone ZoneName `json:"zone,omitempty"`

	// databases are the addresses of the zone's databases. Without them, the node uses the databases of its agent's command line.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=3
	Databases []IP `json:"databases,omitempty"`

	// transitAddresses are the node's addresses on the switch that connects the zones, one per family. They are absent without zones.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=2
	TransitAddresses []IP `json:"transitAddresses,omitempty"`

	// +optional
	Encapsulation Encapsulation `json:"encapsulation,omitempty,omitzero"`

	// encryption is what the node does for the encryption of its tunnels. It is absent without encryption.
	// +optional
	Encryption TunnelProtection `json:"encryption,omitempty"`

	// gateway is the part of ClusterNetwork's gateway that applies to this node.
	// +optional
	Gateway NodeGateway `json:"gateway,omitempty,omitzero"`

	// physicalNetworks are the entries of ClusterNetwork's physicalNetworks that select this node, and former entries that its pods use.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=32
	PhysicalNetworks []NodePhysicalNetwork `json:"physicalNetworks,omitempty"`

	// dns is the cluster's DNS configuration for CNI results.
	// +optional
	DNS DNS `json:"dns,omitempty,omitzero"`

	// reservedPorts is a copy of ClusterNetwork's reservedPorts.
	// +optional
	// +listType=map
	// +listMapKey=protocol
	// +listMapKey=port
	// +kubebuilder:validation:MaxItems=64
	ReservedPorts []ReservedPort `json:"reservedPorts,omitempty"`

	// hostPorts is a copy of ClusterNetwork's hostPorts.
	// +optional
	HostPorts HostPorts `json:"hostPorts,omitempty,omitzero"`

	// bgp is what the node announces by BGP. It is absent unless a BGPPeer selects the node.
	// +optional
	BGP *NodeBGP `json:"bgp,omitempty"`

	// wildcards are the DNS names with wildcards whose addresses the node observes. It is absent without such a name.
	// +optional
	Wildcards *NodeWildcards `json:"wildcards,omitempty"`

	// probeAddresses are addresses that EgressIPs and Services wait for. The node finds out whether a host of its segments has them.
	// +optional
	// +listType=map
	// +listMapKey=address
	// +kubebuilder:validation:MaxItems=256
	ProbeAddresses []AddressProbe `json:"probeAddresses,omitempty"`
}

// MaxAddressProbes is how many addresses a node probes.
const MaxAddressProbes = 256

// AddressProbe requests a node to probe an address: to find out whether a host of the node's segments has it.
type AddressProbe struct {
	Address IP `json:"address"`

	// requestedAt is when the operator requested the probe.
	RequestedAt metav1.Time `json:"requestedAt"`

	// expired means that the node did not report a result in time. The operator then does not wait for this node.
	// +optional
	Expired bool `json:"expired,omitempty"`
}

// ProbedAddress is the result of an AddressProbe.
type ProbedAddress struct {
	Address IP `json:"address"`

	// requestedAt is that of the AddressProbe.
	RequestedAt metav1.Time `json:"requestedAt"`

	// macAddress is the MAC of the host that has the address. It is absent if no host has it. It may be the MAC of a node.
	// +optional
	MACAddress MACAddress `json:"macAddress,omitempty"`

	// error is why the node cannot probe the address.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Error string `json:"error,omitempty"`
}

// MaxForeignHosts is how many foreign hosts a node reports.
const MaxForeignHosts = 64

// ForeignHost is a host on a segment of the data centre that answered for an address just before a pod got it.
type ForeignHost struct {
	// physicalNetwork is the network of the segment.
	PhysicalNetwork PhysicalNetworkName `json:"physicalNetwork"`

	// vlan is the VLAN ID of the segment. 0 means untagged frames.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=4094
	VLAN int32 `json:"vlan"`

	// address is the address for which the host answered.
	Address IP `json:"address"`

	// macAddress is the MAC that answered.
	MACAddress MACAddress `json:"macAddress"`

	// answeredAt is when the host answered. It may be half an hour before the last answer.
	AnsweredAt metav1.Time `json:"answeredAt"`
}

// Limits of a NodeNetwork's wildcards.
const (
	// MaxWildcards is how many names with wildcards a cluster may use.
	MaxWildcards = 256
	// MaxWildcardAddresses is how many addresses a node keeps for all of them, and MaxAddressesOfWildcard for one.
	MaxWildcardAddresses   = 4000
	MaxAddressesOfWildcard = 1000
)

// NodeWildcards says which answers of name servers a node observes.
type NodeWildcards struct {
	// names are the names, "*.example.com", in lower case and sorted.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MaxLength=253
	Names []string `json:"names,omitempty"`

	// nameservers are the addresses whose answers count.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=8
	Nameservers []IP `json:"nameservers,omitempty"`
}

// ObservedWildcard is what pods of a node got as answers for the names that a wildcard matches.
type ObservedWildcard struct {
	// name is the name with its wildcard, "*.example.com".
	// +required
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	// addresses are the addresses, sorted. An address stays for an hour after its last answer, or for the answer's TTL
	// if that is longer, up to a day.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=1000
	Addresses []IP `json:"addresses,omitempty"`
}

// NodeGateway is the desired configuration of the node's link to the outside.
type NodeGateway struct {
	// +optional
	Mode GatewayMode `json:"mode,omitempty"`
	// +optional
	Uplink UplinkType `json:"uplink,omitempty"`

	// interface is the bridge or link. If empty, the link of the default route is used.
	// +optional
	// +kubebuilder:validation:MaxLength=15
	Interface string `json:"interface,omitempty"`

	// nextHops are the routers outside, at most one per family. If empty, the next hops of the default routes are
	// used.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=2
	NextHops []IP `json:"nextHops,omitempty"`

	// +optional
	SNAT SNATPolicy `json:"snat,omitempty"`

	// nodePortAddresses are the networks of the node's addresses at which node ports and host ports are served, or "primary".
	// If empty, all addresses are used.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=16
	NodePortAddresses []NodePortAddress `json:"nodePortAddresses,omitempty"`

	// move permits the node to move its link. It repeats status.move when it is this node's turn.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	Move string `json:"move,omitempty"`

	// unconfirmed means that the gateway was changed, and that the node has not reported since that it works
	// (GatewayReady). Such nodes count towards ClusterNetwork's spec.gateway.maxMoving.
	// +optional
	Unconfirmed bool `json:"unconfirmed,omitempty"`
}

// ManagementPort is the host's own port on its node's switch.
type ManagementPort struct {
	// +optional
	MACAddress MACAddress `json:"macAddress,omitempty"`

	// addresses are the host's addresses in podSubnets, in the same order: the .2 of each subnet.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=4
	Addresses []InterfaceAddress `json:"addresses,omitempty"`
}

// DatapathType is the Open vSwitch datapath of the integration bridge.
//
// +kubebuilder:validation:Enum=system;netdev
type DatapathType string

const (
	// DatapathSystem is the kernel's datapath.
	DatapathSystem DatapathType = "system"
	// DatapathNetdev is the userspace datapath, used if the kernel does not support Open vSwitch.
	DatapathNetdev DatapathType = "netdev"
)

// NodeNetworkStatus is written by the node's agent.
type NodeNetworkStatus struct {
	// observedGeneration is the metadata.generation that this status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// conditions: Ready sums up OVSReady, ControllerReady, ManagementPortReady, CNIReady and the operator's
	// TopologyReady. Available equals Ready. Progressing, Degraded and Upgradeable sum up all conditions, as in
	// ClusterNetwork; their messages are the worst problem.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// problems lists what is wrong on this node, worst first.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=20
	Problems []Problem `json:"problems,omitempty"`

	// chassis is the system-id of the node's Open vSwitch, which is the name of its Chassis.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Chassis string `json:"chassis,omitempty"`

	// encapIP is the address that other nodes tunnel to.
	// +optional
	EncapIP IP `json:"encapIP,omitempty"`

	// furtherEncapIPs are the other addresses that nodes tunnel to, if the node has several.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=3
	FurtherEncapIPs []IP `json:"furtherEncapIPs,omitempty"`

	// encapType is the tunnel protocol in use.
	// +optional
	EncapType EncapsulationType `json:"encapType,omitempty"`

	// datapathType is the datapath of br-int.
	// +optional
	DatapathType DatapathType `json:"datapathType,omitempty"`

	// encryption is the state of the tunnels' encryption. It is absent without encryption.
	// +optional
	Encryption *NodeEncryption `json:"encryption,omitempty"`

	// linkMTU is the MTU in bytes of the link that holds encapIP, before encapsulation.
	// +optional
	LinkMTU int32 `json:"linkMTU,omitempty"`

	// managementPort is the host's port as it exists.
	// +optional
	ManagementPort ManagementPortStatus `json:"managementPort,omitempty,omitzero"`

	// gateway is the node's link to the outside as it exists. It is absent if the agent has no link to offer.
	// +optional
	Gateway *NodeGatewayStatus `json:"gateway,omitempty"`

	// hostAddresses are the host's other addresses, on any of its links. Pods of the node reach them through its management
	// port.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	HostAddresses []IP `json:"hostAddresses,omitempty"`

	// move is the move of a link onto a bridge that the node requests, "eth0 Bridge". It is absent if no move is
	// necessary.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	Move string `json:"move,omitempty"`

	// physicalNetworks are the node's connections with the networks of spec.physicalNetworks, and with physnet, if the
	// gateway has a bridge.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=33
	PhysicalNetworks []NodePhysicalNetworkStatus `json:"physicalNetworks,omitempty"`

	// bgp lists the node's BGP sessions.
	// +optional
	// +listType=map
	// +listMapKey=peer
	// +kubebuilder:validation:MaxItems=16
	BGP []NodeBGPSession `json:"bgp,omitempty"`

	// wildcards are the addresses that pods of this node got for the names of spec.wildcards.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=256
	Wildcards []ObservedWildcard `json:"wildcards,omitempty"`

	// probed are the results of spec.probeAddresses, sorted.
	// +optional
	// +listType=map
	// +listMapKey=address
	// +kubebuilder:validation:MaxItems=256
	Probed []ProbedAddress `json:"probed,omitempty"`

	// foreignHosts are the hosts that answered the node's probe of an address which a pod was to get. Pods that do not request
	// such an address get another. An entry ends an hour after answeredAt, or with a probe that nobody answers.
	// +optional
	// +listType=map
	// +listMapKey=physicalNetwork
	// +listMapKey=vlan
	// +listMapKey=address
	// +kubebuilder:validation:MaxItems=64
	ForeignHosts []ForeignHost `json:"foreignHosts,omitempty"`

	// agentVersion is the version of the agent that wrote this.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	AgentVersion string `json:"agentVersion,omitempty"`

	// ovsVersion is the version of Open vSwitch.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	OVSVersion string `json:"ovsVersion,omitempty"`

	// ovnVersion is the version of ovn-controller, if known.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	OVNVersion string `json:"ovnVersion,omitempty"`

	// probe is the answer to the request in the annotation network.weft.dev/probe. It is absent without a request.
	// +optional
	Probe *ProbeStatus `json:"probe,omitempty"`

	// addresses counts the addresses of podSubnets. It is absent while podSubnets is unknown.
	// +optional
	Addresses *AddressCounts `json:"addresses,omitempty"`

	// pods is the number of pods with an interface on this node.
	// +optional
	Pods int32 `json:"pods,omitempty"`
}

// NodeGatewayStatus is the node's link to the outside as it exists. The node's gateway router is built from it.
type NodeGatewayStatus struct {
	// mode is the effective mode.
	// +optional
	Mode GatewayMode `json:"mode,omitempty"`
	// +optional
	Uplink UplinkType `json:"uplink,omitempty"`

	// bridge is the Open vSwitch bridge that leads outside.
	// +optional
	// +kubebuilder:validation:MaxLength=15
	Bridge string `json:"bridge,omitempty"`

	// interface is the bridge's port that leads outside.
	// +optional
	// +kubebuilder:validation:MaxLength=15
	Interface string `json:"interface,omitempty"`

	// macAddress is the external MAC of the gateway router. If the host shares the link, it is the host's MAC.
	// +optional
	MACAddress MACAddress `json:"macAddress,omitempty"`

	// addresses are the external addresses of the gateway router, one per family, with the prefix length of their
	// subnets.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=2
	Addresses []InterfaceAddress `json:"addresses,omitempty"`

	// nextHops are the routers outside, at most one per family.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=2
	NextHops []IP `json:"nextHops,omitempty"`

	// snat is the effective policy for the source address of pods' packets. Agents of older versions do not report it, and use
	// that of spec.
	// +optional
	SNAT SNATPolicy `json:"snat,omitempty"`

	// answersForAddresses means that the agent can make the host answer for egress IPs and addresses of load balancers, in Local
	// mode. Agents of older versions cannot.
	// +optional
	AnswersForAddresses bool `json:"answersForAddresses,omitempty"`

	// probesAddresses means that the agent probes the addresses of spec.probeAddresses. Agents of older versions cannot.
	// +optional
	ProbesAddresses bool `json:"probesAddresses,omitempty"`

	// furtherLinks are the host's other links with addresses, whose networks may have egress IPs too. They are reported in
	// Local mode, on nodes that may carry egress IPs.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	FurtherLinks []NodeLink `json:"furtherLinks,omitempty"`
}

// NodeLink is a link of a node's host.
type NodeLink struct {
	// name is the name of the link.
	// +required
	// +kubebuilder:validation:MaxLength=15
	Name string `json:"name"`

	// macAddress is the MAC of the link. Agents of older versions do not report it.
	// +optional
	MACAddress MACAddress `json:"macAddress,omitempty"`

	// addresses are the host's global addresses there, with the prefix length of their subnets.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Addresses []InterfaceAddress `json:"addresses,omitempty"`
}

// ManagementPortStatus is the host's port as it exists.
type ManagementPortStatus struct {
	// name is the name of the link.
	// +optional
	// +kubebuilder:validation:MaxLength=15
	Name string `json:"name,omitempty"`
	// +optional
	MACAddress MACAddress `json:"macAddress,omitempty"`
}

// TunnelProtection is what a node does for the encryption of its tunnels. Accepted: it answers other nodes. Required: it sends and
// accepts only encrypted packets.
//
// +kubebuilder:validation:Enum=Accepted;Required
type TunnelProtection string

const (
	// ProtectionAccepted answers nodes that negotiate keys, and sends in the clear until one does.
	ProtectionAccepted TunnelProtection = "Accepted"
	// ProtectionRequired sends and accepts only encrypted packets.
	ProtectionRequired TunnelProtection = "Required"
)

// NodeEncryption is the state of a node's encrypted tunnels.
type NodeEncryption struct {
	// ready means that the node can encrypt: its datapath is the kernel's, and its IKE daemon has the node's certificate.
	// +optional
	Ready bool `json:"ready,omitempty"`

	// peers is the number of tunnels' ends at other nodes, and established is for how many of them keys are negotiated.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Peers int32 `json:"peers,omitempty"`
	// established is described at peers.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Established int32 `json:"established,omitempty"`
}
