package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// GatewayPhysicalNetwork is the physical network behind the bridge of each node's gateway. It needs no entry in
// ClusterNetwork's spec.physicalNetworks.
const GatewayPhysicalNetwork PhysicalNetworkName = "physnet"

// PhysicalNetworkName names a network of the data centre to which nodes have a link.
//
// +kubebuilder:validation:MaxLength=63
// +kubebuilder:validation:Pattern=`^[a-zA-Z0-9]([-_.a-zA-Z0-9]*[a-zA-Z0-9])?$`
type PhysicalNetworkName string

// PhysicalNetwork connects nodes with a network of the data centre, by a link or by a bridge.
//
// +kubebuilder:validation:XValidation:rule="has(self.link) != has(self.bridge)",message="a physical network needs either link or bridge",messageExpression="'physical network ' + self.name + ' needs either link or bridge'",reason=FieldValueInvalid
type PhysicalNetwork struct {
	// name is what Localnet Networks name in spec.physicalNetwork. The name physnet is the gateway's bridge and has no
	// entry.
	// +required
	// +kubebuilder:validation:XValidation:rule="self != 'physnet'",message="physnet is the gateway's bridge on every node and needs no entry",reason=FieldValueForbidden
	Name PhysicalNetworkName `json:"name"`

	// nodeSelector selects the nodes that have this link or bridge. Omitted, all nodes.
	// +optional
	NodeSelector *metav1.LabelSelector `json:"nodeSelector,omitempty"`

	// link is a link of the nodes. The agent makes an Open vSwitch bridge and moves the link onto it, with the link's
	// addresses and routes, if it has any. Without the entry, the link is as before. The gateway's link cannot be
	// named here.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=15
	// +kubebuilder:validation:Pattern=`^[^\s/:,]+$`
	Link string `json:"link,omitempty"`

	// bridge is an existing Open vSwitch bridge of the nodes. Weft does not change the bridge.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=15
	// +kubebuilder:validation:Pattern=`^[^\s/:,]+$`
	// +kubebuilder:validation:XValidation:rule="self != 'br-int'",message="br-int is OVN's own bridge and leads to no physical network",reason=FieldValueInvalid
	Bridge string `json:"bridge,omitempty"`
}

// NodePhysicalNetwork is a physical network that a node must be connected with, by a link or by a bridge.
type NodePhysicalNetwork struct {
	// +required
	Name PhysicalNetworkName `json:"name"`
	// link is the link that the agent moves onto a bridge.
	// +optional
	// +kubebuilder:validation:MaxLength=15
	Link string `json:"link,omitempty"`
	// bridge is an existing bridge.
	// +optional
	// +kubebuilder:validation:MaxLength=15
	Bridge string `json:"bridge,omitempty"`
	// leaving means that ClusterNetwork's spec does not have this link or bridge for the node any more, and that pods of the node use it.
	// No further pod is attached.
	// +optional
	Leaving bool `json:"leaving,omitempty"`
}

// NodePhysicalNetworkStatus is a node's connection with a physical network.
type NodePhysicalNetworkStatus struct {
	// +required
	Name PhysicalNetworkName `json:"name"`
	// ready reports whether pods of this node reach the physical network.
	// +required
	Ready bool `json:"ready"`
	// bridge is the Open vSwitch bridge that leads to the physical network. It is absent until a bridge does.
	// +optional
	// +kubebuilder:validation:MaxLength=15
	Bridge string `json:"bridge,omitempty"`
	// linkMTU is the MTU in bytes of the link to the physical network, or the smallest of the bridge's links.
	// +optional
	LinkMTU int32 `json:"linkMTU,omitempty"`
	// macAddress is the host's MAC on the bridge. No pod of a Localnet Network gets it. Agents of older versions do not report it.
	// +optional
	MACAddress MACAddress `json:"macAddress,omitempty"`
	// message says why the physical network is not ready.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`
}
