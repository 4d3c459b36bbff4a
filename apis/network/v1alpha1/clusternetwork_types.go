package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ClusterNetworkName is the name of the only ClusterNetwork.
const ClusterNetworkName = "default"

// The prefix lengths of a node's pod subnets if ClusterNetworkEntry.HostPrefix is omitted. The CEL rules repeat them.
const (
	DefaultHostPrefixIPv4 = 24
	DefaultHostPrefixIPv6 = 64
)

// ClusterNetwork is the network of the cluster. The only one is named "default". Without it everything stays as it
// is: nodes and pods keep their configuration, and nothing is added or removed.
//
// +kubebuilder:object:root=true
// +kubebuilder:metadata:labels="network.weft.dev/goes-after-network=true"
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=cn
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Removing",type=string,JSONPath=`.status.conditions[?(@.type=="Removing")].reason`,description="what the removal of the network waits for; empty unless the ClusterNetwork is being deleted"
// +kubebuilder:printcolumn:name="Nodes",type=string,JSONPath=`.status.nodesReady`,description="nodes whose network is ready, and all nodes"
// +kubebuilder:printcolumn:name="Free-IPs",type=string,JSONPath=`.status.addressesFree`,description="free pod addresses by cluster CIDR"
// +kubebuilder:printcolumn:name="MTU",type=integer,JSONPath=`.status.mtu`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name == 'default'",message="the only ClusterNetwork is named default",messageExpression="'the only ClusterNetwork is named default, not ' + self.metadata.name"
// +kubebuilder:validation:XValidation:rule="[oldSelf.spec.clusterNetwork.filter(o, self.spec.clusterNetwork.exists(n, n.cidr == o.cidr) && !(has(oldSelf.status) && has(oldSelf.status.networks) && oldSelf.status.networks.exists(w, w.cidr == o.cidr && w.state == 'Held')))].all(kept, [0, 1, 2, 3, 4, 5, 6, 7].all(i, i >= kept.size() || self.spec.clusterNetwork[i].cidr == kept[i].cidr))",message="clusterNetwork entries cannot change their order: nodes get subnets of the entries in that order; append new entries behind the others",reason=FieldValueForbidden,fieldPath=.spec.clusterNetwork
// +kubebuilder:validation:XValidation:rule="has(oldSelf.status) && has(oldSelf.status.networks) && oldSelf.status.networks.size() > 0 && oldSelf.status.networks.all(w, w.state == 'Held') || oldSelf.spec.serviceNetwork.filter(o, !self.spec.serviceNetwork.exists(n, n == o) && !(has(oldSelf.status) && has(oldSelf.status.networks) && oldSelf.status.networks.exists(w, w.cidr == o && w.state == 'Held')) && self.spec.serviceNetwork.exists(n, isCIDR(n) && isCIDR(o) && cidr(n).ip().family() == cidr(o).ip().family())).size() == 0",message="serviceNetwork cannot be replaced",messageExpression="'serviceNetwork ' + oldSelf.spec.serviceNetwork.filter(o, !self.spec.serviceNetwork.exists(n, n == o) && !(has(oldSelf.status) && has(oldSelf.status.networks) && oldSelf.status.networks.exists(w, w.cidr == o && w.state == 'Held')) && self.spec.serviceNetwork.exists(n, isCIDR(n) && isCIDR(o) && cidr(n).ip().family() == cidr(o).ip().family()))[0] + ' cannot be replaced: Services keep their cluster IPs. Remove its address family from clusterNetwork and serviceNetwork, wait until status.networks lacks it, and add the family with the other network'",reason=FieldValueForbidden,fieldPath=.spec.serviceNetwork
// +kubebuilder:validation:XValidation:rule="has(oldSelf.status) && has(oldSelf.status.networks) && oldSelf.status.networks.size() > 0 && oldSelf.status.networks.all(w, w.state == 'Held') || oldSelf.spec.joinSubnet.filter(o, !self.spec.joinSubnet.exists(n, n == o) && !(has(oldSelf.status) && has(oldSelf.status.networks) && oldSelf.status.networks.exists(w, w.cidr == o && w.state == 'Held')) && self.spec.joinSubnet.exists(n, isCIDR(n) && isCIDR(o) && cidr(n).ip().family() == cidr(o).ip().family()) && (!has(oldSelf.status) || !has(oldSelf.status.networks) || oldSelf.status.networks.exists(w, w.cidr == o))).size() == 0",message="joinSubnet cannot be replaced",messageExpression="'joinSubnet ' + oldSelf.spec.joinSubnet.filter(o, !self.spec.joinSubnet.exists(n, n == o) && !(has(oldSelf.status) && has(oldSelf.status.networks) && oldSelf.status.networks.exists(w, w.cidr == o && w.state == 'Held')) && self.spec.joinSubnet.exists(n, isCIDR(n) && isCIDR(o) && cidr(n).ip().family() == cidr(o).ip().family()) && (!has(oldSelf.status) || !has(oldSelf.status.networks) || oldSelf.status.networks.exists(w, w.cidr == o)))[0] + ' cannot be replaced: gateway routers have addresses of it. A network of an address family that clusterNetwork lacks can be replaced'",reason=FieldValueForbidden,fieldPath=.spec.joinSubnet
// +kubebuilder:validation:XValidation:rule="oldSelf.spec.serviceNetwork.size() == 0 || self.spec.serviceNetwork.size() > 0",message="serviceNetwork cannot be emptied",reason=FieldValueForbidden,fieldPath=.spec.serviceNetwork
// +kubebuilder:validation:XValidation:rule="oldSelf.spec.serviceNetwork.size() > 0 || !has(oldSelf.status) || !has(oldSelf.status.serviceNetwork) || self.spec.serviceNetwork.all(n, !isCIDR(n) || oldSelf.status.serviceNetwork.all(s, cidr(s).ip().family() != cidr(n).ip().family() || cidr(s) == cidr(n)))",message="serviceNetwork differs from status.serviceNetwork",messageExpression="'serviceNetwork is ' + oldSelf.status.serviceNetwork.join(' and ') + ', by status.serviceNetwork, and cannot be replaced: Services keep their cluster IPs'",reason=FieldValueForbidden,fieldPath=.spec.serviceNetwork
// +kubebuilder:validation:XValidation:rule="self.spec.serviceNetwork.size() > 0 || !has(oldSelf.status) || !has(oldSelf.status.serviceNetwork) || !self.spec.clusterNetwork.exists(c, isCIDR(c.cidr) && oldSelf.status.serviceNetwork.exists(s, cidr(s).containsCIDR(c.cidr) || cidr(c.cidr).containsCIDR(s)))",message="clusterNetwork and status.serviceNetwork must not overlap",messageExpression="'an entry of clusterNetwork overlaps status.serviceNetwork ' + oldSelf.status.serviceNetwork.join(' and ')",reason=FieldValueInvalid,fieldPath=.spec.clusterNetwork
type ClusterNetwork struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +required
	Spec ClusterNetworkSpec `json:"spec"`
	// +optional
	Status ClusterNetworkStatus `json:"status,omitempty,omitzero"`
}

// ServiceNetworks returns the networks of cluster IPs: of the spec, or, if the spec has none, of the status.
func (n *ClusterNetwork) ServiceNetworks() []CIDR {
	if len(n.Spec.ServiceNetwork) > 0 {
		return n.Spec.ServiceNetwork
	}
	return n.Status.ServiceNetwork
}

// ClusterNetworkList is a list of ClusterNetworks.
//
// +kubebuilder:object:root=true
type ClusterNetworkList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ClusterNetwork `json:"items"`
}

// ClusterNetworkSpec is the desired state of the network. Its CIDRs must not overlap, and clusterNetwork,
// serviceNetwork and joinSubnet must have the same address families.
//
// +kubebuilder:validation:XValidation:rule="self.clusterNetwork.all(a, self.clusterNetwork.all(b, a.cidr == b.cidr || !isCIDR(a.cidr) || !isCIDR(b.cidr) || !cidr(a.cidr).containsCIDR(b.cidr)))",message="clusterNetwork CIDRs must not overlap",messageExpression="self.clusterNetwork.map(a, self.clusterNetwork.exists(b, a.cidr != b.cidr && isCIDR(a.cidr) && isCIDR(b.cidr) && cidr(a.cidr).containsCIDR(b.cidr)), 'clusterNetwork ' + a.cidr + ' overlaps clusterNetwork ' + self.clusterNetwork.map(b, a.cidr != b.cidr && isCIDR(b.cidr) && cidr(a.cidr).containsCIDR(b.cidr), b.cidr)[0])[0]",reason=FieldValueInvalid
// +kubebuilder:validation:XValidation:rule="self.clusterNetwork.all(a, self.serviceNetwork.all(b, !isCIDR(a.cidr) || !isCIDR(b) || !(cidr(a.cidr).containsCIDR(b) || cidr(b).containsCIDR(a.cidr))))",message="clusterNetwork and serviceNetwork must not overlap",messageExpression="self.clusterNetwork.map(a, isCIDR(a.cidr) && self.serviceNetwork.exists(b, isCIDR(b) && (cidr(a.cidr).containsCIDR(b) || cidr(b).containsCIDR(a.cidr))), 'clusterNetwork ' + a.cidr + ' overlaps serviceNetwork ' + self.serviceNetwork.filter(b, isCIDR(b) && (cidr(a.cidr).containsCIDR(b) || cidr(b).containsCIDR(a.cidr)))[0])[0]",reason=FieldValueInvalid
// +kubebuilder:validation:XValidation:rule="self.clusterNetwork.all(a, self.joinSubnet.all(b, !isCIDR(a.cidr) || !isCIDR(b) || !(cidr(a.cidr).containsCIDR(b) || cidr(b).containsCIDR(a.cidr))))",message="clusterNetwork and joinSubnet must not overlap",messageExpression="self.clusterNetwork.map(a, isCIDR(a.cidr) && self.joinSubnet.exists(b, isCIDR(b) && (cidr(a.cidr).containsCIDR(b) || cidr(b).containsCIDR(a.cidr))), 'clusterNetwork ' + a.cidr + ' overlaps joinSubnet ' + self.joinSubnet.filter(b, isCIDR(b) && (cidr(a.cidr).containsCIDR(b) || cidr(b).containsCIDR(a.cidr)))[0])[0]",reason=FieldValueInvalid
// +kubebuilder:validation:XValidation:rule="self.serviceNetwork.all(a, self.joinSubnet.all(b, !isCIDR(a) || !isCIDR(b) || !(cidr(a).containsCIDR(b) || cidr(b).containsCIDR(a))))",message="serviceNetwork and joinSubnet must not overlap",messageExpression="self.serviceNetwork.map(a, isCIDR(a) && self.joinSubnet.exists(b, isCIDR(b) && (cidr(a).containsCIDR(b) || cidr(b).containsCIDR(a))), 'serviceNetwork ' + a + ' overlaps joinSubnet ' + self.joinSubnet.filter(b, isCIDR(b) && (cidr(a).containsCIDR(b) || cidr(b).containsCIDR(a)))[0])[0]",reason=FieldValueInvalid
// +kubebuilder:validation:XValidation:rule="self.clusterNetwork.size() == 0 || !self.clusterNetwork.all(c, isCIDR(c.cidr)) || self.serviceNetwork.all(s, !isCIDR(s) || self.clusterNetwork.exists(c, cidr(c.cidr).ip().family() == cidr(s).ip().family()))",message="each family of serviceNetwork needs a clusterNetwork",messageExpression="'serviceNetwork ' + self.serviceNetwork.filter(s, isCIDR(s) && !self.clusterNetwork.exists(c, cidr(c.cidr).ip().family() == cidr(s).ip().family()))[0] + ' needs a clusterNetwork of its address family'",reason=FieldValueInvalid
// +kubebuilder:validation:XValidation:rule="self.serviceNetwork.size() == 0 || !self.serviceNetwork.all(s, isCIDR(s)) || self.clusterNetwork.all(c, !isCIDR(c.cidr) || self.serviceNetwork.exists(s, cidr(s).ip().family() == cidr(c.cidr).ip().family()))",message="each family of clusterNetwork needs a serviceNetwork",messageExpression="'clusterNetwork ' + self.clusterNetwork.map(c, isCIDR(c.cidr) && !self.serviceNetwork.exists(s, cidr(s).ip().family() == cidr(c.cidr).ip().family()), c.cidr)[0] + ' needs a serviceNetwork of its address family'",reason=FieldValueInvalid
// +kubebuilder:validation:XValidation:rule="self.joinSubnet.size() == 0 || !self.joinSubnet.all(j, isCIDR(j)) || self.clusterNetwork.all(c, !isCIDR(c.cidr) || self.joinSubnet.exists(j, cidr(j).ip().family() == cidr(c.cidr).ip().family()))",message="each family of clusterNetwork needs a joinSubnet",messageExpression="'clusterNetwork ' + self.clusterNetwork.map(c, isCIDR(c.cidr) && !self.joinSubnet.exists(j, cidr(j).ip().family() == cidr(c.cidr).ip().family()), c.cidr)[0] + ' needs a joinSubnet of its address family'",reason=FieldValueInvalid
// +kubebuilder:validation:XValidation:rule="!has(self.mtu) || self.mtu == 0 || self.mtu >= 1280 || !self.clusterNetwork.exists(c, isCIDR(c.cidr) && cidr(c.cidr).ip().family() == 6)",message="IPv6 needs an mtu of at least 1280 (RFC 8200 section 5)",reason=FieldValueInvalid,fieldPath=.mtu
// +kubebuilder:validation:XValidation:rule="!has(self.gateway) || !has(self.gateway.nextHops) || self.gateway.nextHops.all(h, !isIP(h) || !(self.clusterNetwork.exists(c, isCIDR(c.cidr) && cidr(c.cidr).containsIP(h)) || self.serviceNetwork.exists(c, isCIDR(c) && cidr(c).containsIP(h)) || self.joinSubnet.exists(c, isCIDR(c) && cidr(c).containsIP(h))))",message="gateway.nextHops must be outside of the cluster's networks",messageExpression="'gateway.nextHops ' + self.gateway.nextHops.filter(h, isIP(h) && (self.clusterNetwork.exists(c, isCIDR(c.cidr) && cidr(c.cidr).containsIP(h)) || self.serviceNetwork.exists(c, isCIDR(c) && cidr(c).containsIP(h)) || self.joinSubnet.exists(c, isCIDR(c) && cidr(c).containsIP(h))))[0] + ' is in a network of clusterNetwork, serviceNetwork or joinSubnet: a next hop is a router outside of them'",reason=FieldValueInvalid,fieldPath=.gateway.nextHops
// +kubebuilder:validation:XValidation:rule="!has(self.gateway) || !has(self.gateway.overrides) || self.gateway.overrides.all(o, !has(o.nextHops) || o.nextHops.all(h, !isIP(h) || !(self.clusterNetwork.exists(c, isCIDR(c.cidr) && cidr(c.cidr).containsIP(h)) || self.serviceNetwork.exists(c, isCIDR(c) && cidr(c).containsIP(h)) || self.joinSubnet.exists(c, isCIDR(c) && cidr(c).containsIP(h)))))",message="gateway.overrides[].nextHops must be outside of the cluster's networks",reason=FieldValueInvalid,fieldPath=.gateway.overrides
// +kubebuilder:validation:XValidation:rule="!has(self.encapsulation) || !has(self.encapsulation.networks) || self.encapsulation.networks.all(n, !isCIDR(n) || !(self.clusterNetwork.exists(c, isCIDR(c.cidr) && (cidr(c.cidr).containsCIDR(n) || cidr(n).containsCIDR(c.cidr))) || self.serviceNetwork.exists(c, isCIDR(c) && (cidr(c).containsCIDR(n) || cidr(n).containsCIDR(c))) || self.joinSubnet.exists(c, isCIDR(c) && (cidr(c).containsCIDR(n) || cidr(n).containsCIDR(c)))))",message="encapsulation.networks must not overlap clusterNetwork, serviceNetwork or joinSubnet: nodes tunnel from their own addresses outside of them",reason=FieldValueInvalid,fieldPath=.encapsulation.networks
// +kubebuilder:validation:XValidation:rule="!has(self.physicalNetworks) || !has(self.gateway) || !has(self.gateway.interface) || self.physicalNetworks.all(p, !has(p.link) || p.link != self.gateway.interface)",message="a link of physicalNetworks must not be the gateway's",messageExpression="'link ' + self.gateway.interface + ' is the gateway\\'s: Localnet Networks reach it as physicalNetwork physnet, which needs no entry'",reason=FieldValueInvalid,fieldPath=.physicalNetworks
type ClusterNetworkSpec struct {
	// clusterNetwork lists the networks of pod addresses. For each address family, each node gets a subnet of length
	// hostPrefix from the first entry with a free subnet. A node without a free address gets another subnet, from the
	// next entry of the family, up to 4 subnets. Entries can be appended, also of an address family that the cluster
	// lacks. A removed entry stays in use (status.networks) until the last pod with an address of it is gone, and no
	// new pod gets one. Entries in force cannot be moved.
	// +required
	// +listType=map
	// +listMapKey=cidr
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	ClusterNetwork []ClusterNetworkEntry `json:"clusterNetwork"`

	// serviceNetwork is the API server's --service-cluster-ip-range, with at most one CIDR per family. If it is empty, the
	// network is read from the ServiceCIDR kubernetes, which Kubernetes 1.33 and newer have: status.serviceNetwork. A CIDR
	// in force (status.networks) cannot be replaced by another of its family. A family is added and removed together with
	// its entries of clusterNetwork.
	// +optional
	// +listType=atomic
	// +kubebuilder:default={}
	// +kubebuilder:validation:MaxItems=2
	// +kubebuilder:validation:XValidation:rule="self.size() < 2 || !self.all(s, isCIDR(s)) || cidr(self[0]).ip().family() != cidr(self[1]).ip().family()",message="serviceNetwork has at most one CIDR per address family",messageExpression="'serviceNetwork has at most one CIDR per address family: ' + self[0] + ' and ' + self[1]",reason=FieldValueInvalid
	// +kubebuilder:validation:XValidation:rule="self.all(s, !isCIDR(s) || !['127.0.0.0/8', '169.254.0.0/16', '224.0.0.0/4', 'fe80::/10', 'ff00::/8', 'fd69::4/128', 'fd69::5/128'].exists(r, cidr(s).containsCIDR(r)))",message="a network must not contain a reserved range",messageExpression="self.filter(s, isCIDR(s) && ['127.0.0.0/8', '169.254.0.0/16', '224.0.0.0/4', 'fe80::/10', 'ff00::/8', 'fd69::4/128', 'fd69::5/128'].exists(r, cidr(s).containsCIDR(r)))[0] + ' contains a reserved range: loopback, link-local and multicast ranges, and fd69::4 and fd69::5 of load balancers, cannot be used'",reason=FieldValueInvalid
	ServiceNetwork []CIDR `json:"serviceNetwork,omitempty"`

	// joinSubnet is the network of the join switch between the cluster router and the gateway routers. It has one
	// CIDR per family, at least a /24 or a /112, and is not visible outside of OVN. A family that clusterNetwork
	// lacks is not used. joinSubnet is immutable once it is in force (status.networks).
	// +optional
	// +listType=atomic
	// +kubebuilder:default={"100.64.0.0/16","fd98::/64"}
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=2
	// +kubebuilder:validation:XValidation:rule="self.size() < 2 || !self.all(s, isCIDR(s)) || cidr(self[0]).ip().family() != cidr(self[1]).ip().family()",message="joinSubnet has at most one CIDR per address family",messageExpression="'joinSubnet has at most one CIDR per address family: ' + self[0] + ' and ' + self[1]",reason=FieldValueInvalid
	// +kubebuilder:validation:XValidation:rule="self.all(s, !isCIDR(s) || cidr(s).prefixLength() <= (cidr(s).ip().family() == 4 ? 24 : 112))",message="joinSubnet must be at least a /24 (IPv4) or a /112 (IPv6)",messageExpression="'joinSubnet ' + self.filter(s, isCIDR(s) && cidr(s).prefixLength() > (cidr(s).ip().family() == 4 ? 24 : 112))[0] + ' is too small: each node takes an address of it; use at least a /24 (IPv4) or a /112 (IPv6)'",reason=FieldValueInvalid
	// +kubebuilder:validation:XValidation:rule="self.all(s, !isCIDR(s) || !['127.0.0.0/8', '169.254.0.0/16', '224.0.0.0/4', 'fe80::/10', 'ff00::/8', 'fd69::4/128', 'fd69::5/128'].exists(r, cidr(s).containsCIDR(r)))",message="a network must not contain a reserved range",messageExpression="self.filter(s, isCIDR(s) && ['127.0.0.0/8', '169.254.0.0/16', '224.0.0.0/4', 'fe80::/10', 'ff00::/8', 'fd69::4/128', 'fd69::5/128'].exists(r, cidr(s).containsCIDR(r)))[0] + ' contains a reserved range: loopback, link-local and multicast ranges, and fd69::4 and fd69::5 of load balancers, cannot be used'",reason=FieldValueInvalid
	JoinSubnet []CIDR `json:"joinSubnet,omitempty"`

	// mtu is the MTU of pod interfaces in bytes: 576..65000, and at least 1280 if clusterNetwork has an IPv6 entry.
	// The default 0 detects it: the smallest link MTU of the nodes minus the overhead of the encapsulation.
	// +optional
	// +kubebuilder:validation:Maximum=65000
	// +kubebuilder:validation:XValidation:rule="self == 0 || self >= 576",message="mtu must be 0 (detect) or at least 576 (RFC 791)",reason=FieldValueInvalid
	MTU int32 `json:"mtu,omitempty"`

	// encapsulation is how nodes tunnel pod packets to each other.
	// +optional
	// +kubebuilder:default={}
	Encapsulation Encapsulation `json:"encapsulation,omitempty,omitzero"`

	// gateway is how traffic leaves and enters the cluster.
	// +optional
	// +kubebuilder:default={}
	Gateway Gateway `json:"gateway,omitempty,omitzero"`

	// physicalNetworks are the networks of the data centre that Localnet Networks use, with the nodes' links to them.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=32
	PhysicalNetworks []PhysicalNetwork `json:"physicalNetworks,omitempty"`

	// podRecord selects the pods that get the annotation network.weft.dev/pod-networks. OnRequest: pods that have, or
	// whose namespace has, the annotation network.weft.dev/pod-record: "true". Always: every pod, at the cost of one
	// API write per pod.
	// +optional
	// +kubebuilder:default=OnRequest
	PodRecord PodRecordPolicy `json:"podRecord,omitempty"`

	// attachmentProvider is the program that attaches what pods request by the annotation k8s.v1.cni.cncf.io/networks.
	// Weft: the agents do, and write k8s.v1.cni.cncf.io/network-status. Multus: Multus is the first CNI plugin of all
	// nodes and does both, and calls weft-cni for definitions of Networks. Pods that have such networks must be
	// recreated after a change.
	// +optional
	// +kubebuilder:default=Weft
	AttachmentProvider AttachmentProvider `json:"attachmentProvider,omitempty"`

	// multicast is which pods exchange multicast packets. Flood: the packets reach all pods of the sender's node, and no
	// other node. OnRequest: they reach those pods of the sender's namespace, on all nodes, that joined the group, if the
	// namespace has the annotation network.weft.dev/multicast: "true". All other multicast packets of pods are dropped.
	// +optional
	// +kubebuilder:default=Flood
	Multicast MulticastPolicy `json:"multicast,omitempty"`

	// dns is the DNS configuration in CNI results and VIF records, for runtimes and virtual machines that use it.
	// kubelet writes the resolv.conf of containers itself, from its own clusterDNS and clusterDomain, which dns
	// should equal.
	// +optional
	DNS DNS `json:"dns,omitempty,omitzero"`

	// reservedPorts are ports of nodes that no host port, node port, external IP or load balancer address may use.
	// The ports of Weft, OVN, kubelet, etcd and the Kubernetes API server are always reserved. A pod or service that
	// requests a reserved port gets an event and a condition; its other ports work.
	// +optional
	// +listType=map
	// +listMapKey=protocol
	// +listMapKey=port
	// +kubebuilder:validation:MaxItems=64
	ReservedPorts []ReservedPort `json:"reservedPorts,omitempty"`

	// hostPorts configures the ports of nodes that pods get by the annotation network.weft.dev/random-host-ports.
	// +optional
	// +kubebuilder:default={}
	HostPorts HostPorts `json:"hostPorts,omitempty,omitzero"`

	// drift configures what happens to Weft's rows of the OVN northbound database that another program changed.
	// +optional
	// +kubebuilder:default={}
	Drift Drift `json:"drift,omitempty,omitzero"`

	// databases configures OVN's databases if the operator runs them.
	// +optional
	// +kubebuilder:default={}
	Databases Databases `json:"databases,omitempty,omitzero"`

	// upgrade configures how nodes get a new version of the operands if the operator runs them.
	// +optional
	// +kubebuilder:default={}
	Upgrade Upgrade `json:"upgrade,omitempty,omitzero"`

	// components adjusts the pods of Weft and OVN, if the operator runs them.
	// +optional
	Components Components `json:"components,omitempty,omitzero"`

	// zones are parts of the cluster with OVN databases and an operator of their own, if the operator runs them. A node is in the
	// first zone that selects it, and otherwise in the default zone.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=15
	Zones []Zone `json:"zones,omitempty"`
}

// ZoneName is the name of a zone.
//
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=20
// +kubebuilder:validation:Pattern="^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
type ZoneName string

// Zone is a part of the cluster with OVN databases and an operator of its own.
type Zone struct {
	// +required
	Name ZoneName `json:"name"`

	// nodeSelector selects the zone's nodes by their labels. Some of them have the zone's databases.
	// +required
	// +kubebuilder:validation:MinProperties=1
	// +kubebuilder:validation:MaxProperties=8
	// +kubebuilder:validation:XValidation:rule="self.all(k, k.matches('^([a-z0-9][-.a-z0-9]*/)?[^\\\\W_]([-.\\\\w]{0,61}[^\\\\W_])?$') && self[k].size() <= 63)",message="a key is not a label key such as team or example.com/team, or its value has more than 63 characters",reason=FieldValueInvalid
	NodeSelector map[string]string `json:"nodeSelector"`

	// databases configures the zone's databases.
	// +optional
	Databases Databases `json:"databases,omitempty,omitzero"`
}

// Databases configures OVN's databases, of a zone or of the default zone.
type Databases struct {
	// members is the number of nodes with a member of the databases. With 3 members the zone, or the default zone,
	// can be changed as long as two of them work. It can be changed at any time.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Enum=1;3
	Members int32 `json:"members,omitempty"`

	// relays are copies of the southbound database that nodes read instead of the database itself.
	// +optional
	Relays Relays `json:"relays,omitempty,omitzero"`
}

// Upgrade configures how nodes get a new version of the operands.
type Upgrade struct {
	// maxUnavailable is the number of nodes whose operands may be replaced at a time, once the first node works with
	// the new version.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	MaxUnavailable int32 `json:"maxUnavailable,omitempty"`
}

// DriftMode is what happens to a row of Weft that another program changed. Repair: Weft repairs the row immediately and
// reports it. Report: Weft reports the row, and leaves it until its object changes or the operator restarts.
//
// +kubebuilder:validation:Enum=Repair;Report
type DriftMode string

const (
	// DriftRepair repairs the row immediately, and reports it.
	DriftRepair DriftMode = "Repair"
	// DriftReport reports the row, and leaves it until its object changes or the operator restarts.
	DriftReport DriftMode = "Report"
)

// Drift configures what happens to rows that another program changed.
type Drift struct {
	// +optional
	// +kubebuilder:default=Repair
	Mode DriftMode `json:"mode,omitempty"`
}

// ClusterNetworkEntry is a network of pod addresses.
//
// +kubebuilder:validation:XValidation:rule="!isCIDR(self.cidr) || (has(self.hostPrefix) ? self.hostPrefix : (cidr(self.cidr).ip().family() == 4 ? 24 : 64)) > cidr(self.cidr).prefixLength()",message="hostPrefix must be longer than the prefix of cidr",messageExpression="'hostPrefix' + (has(self.hostPrefix) ? ' ' : (cidr(self.cidr).ip().family() == 4 ? ', 24 by default, ' : ', 64 by default, ')) + 'must be longer than the prefix of cidr ' + self.cidr",reason=FieldValueInvalid
// +kubebuilder:validation:XValidation:rule="!isCIDR(self.cidr) || !has(self.hostPrefix) || self.hostPrefix <= (cidr(self.cidr).ip().family() == 4 ? 29 : 112)",message="hostPrefix must be at most 29 (IPv4) or 112 (IPv6)",messageExpression="'hostPrefix of ' + self.cidr + ' must be at most ' + (cidr(self.cidr).ip().family() == 4 ? '29' : '112') + ': smaller subnets have no room for pods'",reason=FieldValueInvalid
// +kubebuilder:validation:XValidation:rule="!isCIDR(self.cidr) || (has(self.hostPrefix) ? self.hostPrefix : (cidr(self.cidr).ip().family() == 4 ? 24 : 64)) == (has(oldSelf.hostPrefix) ? oldSelf.hostPrefix : (cidr(oldSelf.cidr).ip().family() == 4 ? 24 : 64))",message="hostPrefix is immutable",messageExpression="'hostPrefix of clusterNetwork ' + self.cidr + ' is immutable'",reason=FieldValueForbidden
type ClusterNetworkEntry struct {
	// cidr is the network. It is immutable once it is in force.
	// +required
	// +kubebuilder:validation:XValidation:rule="!isCIDR(self) || !['127.0.0.0/8', '169.254.0.0/16', '224.0.0.0/4', 'fe80::/10', 'ff00::/8', 'fd69::4/128', 'fd69::5/128'].exists(r, cidr(self).containsCIDR(r))",message="a network must not contain a reserved range",messageExpression="self + ' contains ' + ['127.0.0.0/8', '169.254.0.0/16', '224.0.0.0/4', 'fe80::/10', 'ff00::/8', 'fd69::4/128', 'fd69::5/128'].filter(r, cidr(self).containsCIDR(r))[0] + ', which is reserved: loopback, link-local and multicast ranges, and fd69::4 and fd69::5 of load balancers, cannot be used'",reason=FieldValueInvalid
	CIDR CIDR `json:"cidr"`

	// hostPrefix is the prefix length of each node's subnet. It must be longer than the prefix of cidr, and at most
	// 29 for IPv4 (4 pods) and 112 for IPv6. The default is 24 for IPv4 and 64 for IPv6. It is immutable.
	// +optional
	HostPrefix int32 `json:"hostPrefix,omitempty"`
}

// EncapsulationType is a tunnel protocol.
//
// +kubebuilder:validation:Enum=Geneve
type EncapsulationType string

// EncapsulationGeneve is Geneve (RFC 8926), the only protocol that carries all of OVN's metadata.
const EncapsulationGeneve EncapsulationType = "Geneve"

// Encapsulation is how nodes tunnel packets to each other.
type Encapsulation struct {
	// +optional
	// +kubebuilder:default=Geneve
	Type EncapsulationType `json:"type,omitempty"`

	// networks are the networks of the nodes that carry the tunnels, of one address family. A node tunnels from its
	// address in each of them: the pods of a node with several such addresses are spread over them. A node without such
	// an address is not ready. Without networks, a node tunnels from its first InternalIP.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=4
	// +kubebuilder:validation:XValidation:rule="self.all(a, self.all(b, !isCIDR(a) || !isCIDR(b) || cidr(a).ip().family() == cidr(b).ip().family()))",message="the networks of tunnels must have one address family"
	Networks []CIDR `json:"networks,omitempty"`

	// encryption protects the tunnels between nodes. IPsec: ESP in transport mode (RFC 4303), with keys by IKEv2 (RFC 7296) and the
	// certificates of the nodes. It needs the kernel's datapath of Open vSwitch on each node. Nodes require it when all nodes can.
	// +optional
	Encryption Encryption `json:"encryption,omitempty"`
}

// Encryption is how the packets in tunnels are protected. None: not at all. IPsec: by ESP.
//
// +kubebuilder:validation:Enum=None;IPsec
type Encryption string

const (
	// EncryptionNone sends packets in the clear. It is the default.
	EncryptionNone Encryption = "None"
	// EncryptionIPsec encrypts and authenticates packets by ESP.
	EncryptionIPsec Encryption = "IPsec"
)

// GatewayMode is where traffic leaves the cluster. Shared: from the gateway router through the external bridge, bypassing
// the host's network stack. Local: through the management port, where the host's routes and rules apply.
//
// +kubebuilder:validation:Enum=Shared;Local
type GatewayMode string

const (
	// GatewayShared sends egress from the gateway router through the external bridge. It bypasses the host's network
	// stack.
	GatewayShared GatewayMode = "Shared"
	// GatewayLocal sends egress through the management port, where the host's routes and rules apply.
	GatewayLocal GatewayMode = "Local"
)

// UplinkType is how OVN uses a node's link to the outside. Bridge: OVN shares the link with the host. Interface: only OVN
// uses the link.
//
// +kubebuilder:validation:Enum=Bridge;Interface
type UplinkType string

const (
	// UplinkBridge shares the link with the host. The link is a port of an Open vSwitch bridge, which has the host's
	// addresses.
	UplinkBridge UplinkType = "Bridge"
	// UplinkInterface gives OVN a link of its own together with its addresses. The host keeps its other links.
	UplinkInterface UplinkType = "Interface"
)

// SNATPolicy is the source address of pods' packets outside of the cluster.
//
// +kubebuilder:validation:Enum=Node;None
type SNATPolicy string

const (
	// SNATNode uses the address of the node that the packets leave from.
	SNATNode SNATPolicy = "Node"
	// SNATNone keeps the pod's address. The network outside must route pod subnets to their nodes.
	SNATNone SNATPolicy = "None"
)

// Gateway is how traffic leaves and enters the cluster.
//
// +kubebuilder:validation:XValidation:rule="!has(self.uplink) || self.uplink != 'Interface' || has(self.interface)",message="uplink Interface needs an interface",reason=FieldValueRequired,fieldPath=.interface
type Gateway struct {
	// +optional
	// +kubebuilder:default=Shared
	Mode GatewayMode `json:"mode,omitempty"`

	// uplink is how OVN gets the link. Bridge: the host shares its link, and its addresses and routes move onto an
	// Open vSwitch bridge unless they are already on one. Interface: only OVN uses the link.
	// +optional
	// +kubebuilder:default=Bridge
	Uplink UplinkType `json:"uplink,omitempty"`

	// interface is the external bridge or link of each node. The default is the link of the default route.
	// +optional
	// +kubebuilder:validation:MaxLength=15
	// +kubebuilder:validation:Pattern=`^[^\s/:]+$`
	Interface string `json:"interface,omitempty"`

	// maxMoving is the number of nodes that may move their link onto a bridge at a time, and the number of nodes that
	// may have a changed gateway of which they have not reported that it works. After a move was rolled back, no other
	// node moves its link. After a node on which a changed gateway does not work, no other node gets it.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	MaxMoving int32 `json:"maxMoving,omitempty"`

	// nextHops are the routers for egress, at most one per family. The default is the next hops of the default
	// routes.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=2
	// +kubebuilder:validation:XValidation:rule="self.size() < 2 || !self.all(h, isIP(h)) || ip(self[0]).family() != ip(self[1]).family()",message="nextHops has at most one address per family",messageExpression="'nextHops has at most one address per family: ' + self[0] + ' and ' + self[1]",reason=FieldValueInvalid
	// +kubebuilder:validation:XValidation:rule="self.all(h, !isIP(h) || ip(h).isGlobalUnicast() || ip(h).isLinkLocalUnicast())",message="a next hop is the address of a router",messageExpression="self.filter(h, isIP(h) && !ip(h).isGlobalUnicast() && !ip(h).isLinkLocalUnicast())[0] + ' is not the address of a router: nextHops are unicast addresses of other hosts'",reason=FieldValueInvalid
	NextHops []IP `json:"nextHops,omitempty"`

	// snat is the source address of pods' packets outside of the cluster. Node: the node's address. None: the pod's own
	// address, to which the network outside must have a route.
	// +optional
	// +kubebuilder:default=Node
	SNAT SNATPolicy `json:"snat,omitempty"`

	// nodePortAddresses are the networks of the nodes' addresses at which node ports and host ports are served, or
	// "primary" alone: the first InternalIP of each family. The default is all addresses of the nodes but loopback and
	// link-local ones. A change goes from node to node, as of the other fields.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:XValidation:rule="self.size() < 2 || !self.exists(a, a == 'primary')",message="nodePortAddresses has primary and networks: primary must be alone",reason=FieldValueInvalid
	NodePortAddresses []NodePortAddress `json:"nodePortAddresses,omitempty"`

	// overrides change the gateway of some nodes. The first override whose selector matches a node applies.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	Overrides []GatewayOverride `json:"overrides,omitempty"`
}

// GatewayOverride changes the gateway of some nodes. Omitted fields keep the values for all nodes.
type GatewayOverride struct {
	// nodeSelector selects the nodes by their labels.
	// +required
	NodeSelector metav1.LabelSelector `json:"nodeSelector"`

	// +optional
	Mode GatewayMode `json:"mode,omitempty"`
	// +optional
	Uplink UplinkType `json:"uplink,omitempty"`
	// interface is the external bridge or link of these nodes.
	// +optional
	// +kubebuilder:validation:MaxLength=15
	// +kubebuilder:validation:Pattern=`^[^\s/:]+$`
	Interface string `json:"interface,omitempty"`
	// nextHops are the routers for egress of these nodes, at most one per family.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=2
	// +kubebuilder:validation:XValidation:rule="self.all(h, !isIP(h) || ip(h).isGlobalUnicast() || ip(h).isLinkLocalUnicast())",message="a next hop is the address of a router",messageExpression="self.filter(h, isIP(h) && !ip(h).isGlobalUnicast() && !ip(h).isLinkLocalUnicast())[0] + ' is not the address of a router: nextHops are unicast addresses of other hosts'",reason=FieldValueInvalid
	NextHops []IP `json:"nextHops,omitempty"`
}

// AttachmentProvider is a program that attaches secondary networks to pods.
//
// +kubebuilder:validation:Enum=Weft;Multus
type AttachmentProvider string

const (
	// AttachmentProviderWeft attaches by Weft's agents.
	AttachmentProviderWeft AttachmentProvider = "Weft"
	// AttachmentProviderMultus attaches by Multus, which calls Weft.
	AttachmentProviderMultus AttachmentProvider = "Multus"
)

// PodRecordPolicy selects the pods that get a VIF record.
//
// +kubebuilder:validation:Enum=OnRequest;Always
type PodRecordPolicy string

const (
	// PodRecordOnRequest writes a VIF record only for pods that request it.
	PodRecordOnRequest PodRecordPolicy = "OnRequest"
	// PodRecordAlways writes a VIF record for every pod.
	PodRecordAlways PodRecordPolicy = "Always"
)

// ClusterNetworkStatus is written by the operator.
type ClusterNetworkStatus struct {
	// observedGeneration is the metadata.generation that this status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// conditions: Ready: spec is valid and in the database, and the network of every node is ready. Available: the
	// network can be changed and at least one node is ready. Progressing: a change is being rolled out. Degraded:
	// something is wrong, for example spec cannot be applied or a node fails. Upgradeable: an upgrade may begin. The
	// message of a bad condition is the worst problem. Removing: the ClusterNetwork is being deleted; the message
	// says what the removal waits for. Otherwise it is absent.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// areas summarize the state of each part of the network.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	Areas []AreaStatus `json:"areas,omitempty"`

	// problems lists what is wrong, worst first, at most 20. Nodes with the same problem share an entry.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=20
	Problems []Problem `json:"problems,omitempty"`

	// computed is spec with all defaults and detected values.
	// +optional
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=object
	// +kubebuilder:pruning:PreserveUnknownFields
	Computed *ClusterNetworkSpec `json:"computed,omitempty"`

	// versions are the running versions of each component. A component that is being replaced keeps its previous
	// version until the last node has the new one.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	Versions []ComponentVersion `json:"versions,omitempty"`

	// rollout is the progress of the operands towards the operator's version. It is absent unless the operator runs
	// the operands.
	// +optional
	Rollout *RolloutStatus `json:"rollout,omitempty"`

	// databases is the state of the members of OVN's databases. It is absent if there is only one member or the
	// operator does not run the databases.
	// +optional
	Databases *DatabasesStatus `json:"databases,omitempty"`

	// relays are the relays of the southbound database of the default zone. It is absent without relays.
	// +optional
	// +listType=map
	// +listMapKey=node
	// +kubebuilder:validation:MaxItems=128
	Relays []RelayStatus `json:"relays,omitempty"`

	// zones is the state of each zone of the spec. It is absent without zones.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=15
	Zones []ZoneStatus `json:"zones,omitempty"`

	// mtu is the effective MTU of pod interfaces in bytes.
	// +optional
	MTU int32 `json:"mtu,omitempty"`

	// +optional
	Nodes NodeCounts `json:"nodes,omitempty,omitzero"`

	// nodesReady is nodes as text for kubectl: "2/3".
	// +optional
	NodesReady string `json:"nodesReady,omitempty"`

	// addresses counts the pod addresses of each entry of clusterNetwork.
	// +optional
	// +listType=map
	// +listMapKey=cidr
	// +kubebuilder:validation:MaxItems=8
	Addresses []NetworkAddresses `json:"addresses,omitempty"`

	// networks says whether each network of clusterNetwork, serviceNetwork and joinSubnet is in force, and which removed
	// networks are still in use. It is absent until the operator has compared the networks with the addresses of a first
	// node.
	// +optional
	// +listType=map
	// +listMapKey=cidr
	// +kubebuilder:validation:MaxItems=32
	Networks []NetworkStatus `json:"networks,omitempty"`

	// serviceNetwork is what was read from the ServiceCIDR kubernetes, at most one CIDR per family. It stays while
	// spec.serviceNetwork is empty, also if the ServiceCIDR is deleted.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=2
	ServiceNetwork []CIDR `json:"serviceNetwork,omitempty"`

	// addressesFree is the number of free addresses of each network as text for kubectl: "10.244.0.0/16: 65000".
	// +optional
	AddressesFree string `json:"addressesFree,omitempty"`

	// outdatedPods are running pods whose addresses differ from a new pod's: they lack an address of a family
	// that was added, or have an address of a network that was removed. They keep their addresses until they are
	// recreated. It is absent without such pods.
	// +optional
	OutdatedPods *OutdatedPods `json:"outdatedPods,omitempty"`

	// refused lists objects that request what they cannot have, or wait for it, and that the owner of a namespace can
	// cause: pods, services, EgressFirewalls, EgressQoS, and cluster-wide objects that depend on these. It is absent
	// without such objects. They do not make the network unhealthy, and block no upgrade.
	// +optional
	Refused *Refusals `json:"refused,omitempty"`

	// drift describes foreign changes to the OVN northbound database. It is absent if none were found.
	// +optional
	Drift *DriftStatus `json:"drift,omitempty"`
}

// MaxDriftItems is the maximum length of the list in ClusterNetwork's status.
const MaxDriftItems = 20

// ReservedPort is a port that a program on every node uses.
type ReservedPort struct {
	// protocol is TCP, UDP or SCTP.
	// +kubebuilder:default=TCP
	// +kubebuilder:validation:Enum=TCP;UDP;SCTP
	Protocol corev1.Protocol `json:"protocol"`

	// port is 1..65535.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port int32 `json:"port"`

	// owner names the program in events and conditions, such as "registry".
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Owner string `json:"owner,omitempty"`
}

// OutdatedPods counts running pods whose addresses differ from a new pod's.
type OutdatedPods struct {
	// total is the number of pods.
	Total int32 `json:"total"`

	// first lists some of them, by namespace and name, at most 50.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=50
	First []OutdatedPod `json:"first,omitempty"`
}

// MaxOutdatedPods is the maximum length of the list in ClusterNetwork's status.
const MaxOutdatedPods = 50

// OutdatedPod is a running pod whose addresses differ from a new pod's.
type OutdatedPod struct {
	// pod is "demo/web".
	Pod string `json:"pod"`
	// message names the missing family, or the address whose network was removed.
	Message string `json:"message"`
}

// Refusals counts objects that request what they cannot have, or wait for it.
type Refusals struct {
	// total is the number of objects.
	Total int32 `json:"total"`

	// reasons counts them by kind and reason, the most frequent first. An object with two reasons counts as the first.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=50
	Reasons []RefusedReason `json:"reasons,omitempty"`

	// first lists some of them, at most 50: of each reason the first by kind, namespace and name, then the others.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=50
	First []Refusal `json:"first,omitempty"`
}

// MaxRefusals is the maximum length of the lists in ClusterNetwork's status.
const MaxRefusals = 50

// RefusedReason counts the objects of a kind that wait for one reason.
type RefusedReason struct {
	// kind is "Pod", "Service" or "Network".
	Kind string `json:"kind"`
	// reason is the reason of the objects' condition.
	Reason string `json:"reason"`
	// total is the number of objects.
	Total int32 `json:"total"`
}

// Refusal is an object that requests what it cannot have, or waits for it.
type Refusal struct {
	// object is "Pod/demo/web", "Service/demo/web" or "Network/blue".
	Object string `json:"object"`
	// reason is the reason of the object's condition.
	// +optional
	Reason string `json:"reason,omitempty"`
	// message is the message of the object's condition, and the next step.
	Message string `json:"message"`
}

// DriftState is the state of a difference.
//
// +kubebuilder:validation:Enum=Repaired;Standing;Collision
type DriftState string

const (
	// DriftRepaired means that the difference was repaired.
	DriftRepaired DriftState = "Repaired"
	// DriftStanding means that the difference still exists, because drift.mode is Report.
	DriftStanding DriftState = "Standing"
	// DriftCollision is a foreign row with the name of a row of Weft. Weft never changes it.
	DriftCollision DriftState = "Collision"
)

// DriftStatus describes what other programs changed.
type DriftStatus struct {
	// total is the number of differences found so far, including repaired ones.
	Total int64 `json:"total"`
	// standing is the present number of differences and collisions.
	Standing int32 `json:"standing"`
	// items are the latest differences, newest first, at most 20.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=20
	Items []DriftItem `json:"items,omitempty"`
}

// DriftItem is a difference between the database and the desired state.
type DriftItem struct {
	// table is the OVSDB table, "Logical_Switch_Port".
	Table string `json:"table"`
	// row is the name of the row. It is the UUID if the row has no name or is a collision.
	Row string `json:"row"`
	// owner is the unit that the row belongs to, "pod/demo/web-0".
	Owner string `json:"owner"`
	// column is the differing column. It is empty if the whole row is missing or must not exist.
	// +optional
	Column string `json:"column,omitempty"`
	// want is the desired value, cut at 256 bytes. It is empty if there should be none. For a whole row it is
	// "present" or "absent".
	// +optional
	Want string `json:"want,omitempty"`
	// have is the value that was found, cut at 256 bytes. It is empty if there was none. For a whole row it is
	// "present" or "absent".
	// +optional
	Have string `json:"have,omitempty"`
	// +optional
	State DriftState `json:"state,omitempty"`
	// since is when the difference was first seen.
	Since metav1.Time `json:"since"`
	// last is when the difference was last seen.
	Last metav1.Time `json:"last"`
	// count is how often the difference was seen.
	Count int64 `json:"count"`
}

// NodeCounts counts the nodes of the cluster.
type NodeCounts struct {
	// total is the number of Nodes.
	Total int32 `json:"total"`
	// ready is the number of Nodes whose NodeNetwork is Ready.
	Ready int32 `json:"ready"`
}

// NetworkAddresses counts the pod addresses of a cluster CIDR.
type NetworkAddresses struct {
	CIDR          CIDR `json:"cidr"`
	AddressCounts `json:",inline"`
}

// AddressCounts counts pod addresses. A count beyond int64 (IPv6) is cut to the maximum.
type AddressCounts struct {
	// total is used plus free.
	Total int64 `json:"total"`
	// used is the number of addresses in use.
	Used int64 `json:"used"`
	// free is the number of addresses available to pods.
	Free int64 `json:"free"`
}
