package v1alpha1

// NetworkState says whether a network of spec is in force.
//
// +kubebuilder:validation:Enum=InForce;Held
type NetworkState string

const (
	// NetworkInForce means that nodes use the network. It stays in force as long as it is in spec.
	NetworkInForce NetworkState = "InForce"
	// NetworkHeld means that the network is not used, because it contains an address of a node or waits for another
	// network that does. Its field can be changed.
	NetworkHeld NetworkState = "Held"
)

// NetworkStatus says whether a network of spec is in force.
type NetworkStatus struct {
	CIDR  CIDR         `json:"cidr"`
	State NetworkState `json:"state"`
	// message says why the network is held.
	// +optional
	Message string `json:"message,omitempty"`
}
