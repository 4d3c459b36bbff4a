package v1alpha1

// ZoneStatus is the state of a zone.
type ZoneStatus struct {
	// +required
	Name ZoneName `json:"name"`

	// node has the zone's databases. It is absent while the zone has no node.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Node string `json:"node,omitempty"`

	// addresses are the addresses of node.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=2
	Addresses []IP `json:"addresses,omitempty"`

	// ready means that the pods of the zone's databases and of its operator are ready.
	// +optional
	Ready bool `json:"ready,omitempty"`

	// message says why they are not ready.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`
}
