package v1alpha1

// NetworkState says whether a network is in force.
//
// +kubebuilder:validation:Enum=InForce;Held;Leaving
type NetworkState string

const (
	// NetworkInForce means that nodes use the network. It stays in force as long as it is in spec.
	NetworkInForce NetworkState = "InForce"
	// NetworkHeld means that the network is not used, because it contains an address of a node or waits for another
	// network that does. Its field can be changed.
	NetworkHeld NetworkState = "Held"
	// NetworkLeaving means that the network was removed from spec, and is still in use. Nothing new uses it.
	NetworkLeaving NetworkState = "Leaving"
)

// NetworkField is the field of spec that a network is from.
//
// +kubebuilder:validation:Enum=clusterNetwork;serviceNetwork;joinSubnet
type NetworkField string

// The fields of spec with networks.
const (
	FieldClusterNetwork NetworkField = "clusterNetwork"
	FieldServiceNetwork NetworkField = "serviceNetwork"
	FieldJoinSubnet     NetworkField = "joinSubnet"
)

// NetworkStatus says whether a network of spec, or a removed network, is in force.
type NetworkStatus struct {
	CIDR  CIDR         `json:"cidr"`
	State NetworkState `json:"state"`
	// field is the field that the network was removed from. It is set while the network is leaving.
	// +optional
	Field NetworkField `json:"field,omitempty"`
	// message says why the network is held, or what still uses a network that is leaving.
	// +optional
	Message string `json:"message,omitempty"`
}
