package v1alpha1

// MemberRole is the role of a database server among its members.
//
// +kubebuilder:validation:Enum=Leader;Follower;Joining;Leaving;Disconnected;Unknown
type MemberRole string

const (
	// MemberLeader leads the cluster.
	MemberLeader MemberRole = "Leader"
	// MemberFollower is connected to a leader.
	MemberFollower MemberRole = "Follower"
	// MemberJoining is joining the cluster.
	MemberJoining MemberRole = "Joining"
	// MemberLeaving leaves the cluster, because one member is wanted.
	MemberLeaving MemberRole = "Leaving"
	// MemberDisconnected runs, but is not connected to a leader.
	MemberDisconnected MemberRole = "Disconnected"
	// MemberUnknown does not answer.
	MemberUnknown MemberRole = "Unknown"
)

// DatabasesStatus is the state of the members of OVN's databases. weft-operands writes it.
type DatabasesStatus struct {
	// wanted is the desired number of members.
	Wanted int32 `json:"wanted"`
	// members are the nodes with a member of each database.
	// +optional
	// +listType=map
	// +listMapKey=node
	// +kubebuilder:validation:MaxItems=3
	Members []DatabaseMember `json:"members,omitempty"`
	// conflict says why no member gets an order. It is absent without a conflict.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Conflict string `json:"conflict,omitempty"`
}

// DatabaseMember is a node with a member of each database.
type DatabaseMember struct {
	// node is the Node's name.
	// +kubebuilder:validation:MaxLength=253
	Node string `json:"node"`
	// northbound is the role of its server of the northbound database.
	Northbound MemberRole `json:"northbound"`
	// southbound is the role of its server of the southbound database.
	Southbound MemberRole `json:"southbound"`
	// message says why the member does not answer.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`
}
