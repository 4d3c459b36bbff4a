package v1alpha1

// ZoneStatus is the state of a zone.
type ZoneStatus struct {
	// +required
	Name ZoneName `json:"name"`

	// node has the zone's databases, or their first member. It is absent while the zone has no node.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Node string `json:"node,omitempty"`

	// addresses are the addresses of the zone's databases, one for each member.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=3
	Addresses []IP `json:"addresses,omitempty"`

	// ready means that the pods of the zone's databases and of its operator are ready.
	// +optional
	Ready bool `json:"ready,omitempty"`

	// databases is the state of the members of the zone's databases. It is absent with one member.
	// +optional
	Databases *DatabasesStatus `json:"databases,omitempty"`

	// relays are the relays of the zone's southbound database. It is absent without relays.
	// +optional
	// +listType=map
	// +listMapKey=node
	// +kubebuilder:validation:MaxItems=128
	Relays []RelayStatus `json:"relays,omitempty"`

	// message says why they are not ready.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`
}
