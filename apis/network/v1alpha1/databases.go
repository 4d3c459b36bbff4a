package v1alpha1

// MemberRole says what a server of a database does among its members.
//
// +kubebuilder:validation:Enum=Leader;Follower;Joining;Disconnected;Unknown
type MemberRole string

const (
	// MemberLeader decides.
	MemberLeader MemberRole = "Leader"
	// MemberFollower has a leader.
	MemberFollower MemberRole = "Follower"
	// MemberJoining is on its way to become one.
	MemberJoining MemberRole = "Joining"
	// MemberDisconnected runs, and hears no leader.
	MemberDisconnected MemberRole = "Disconnected"
	// MemberUnknown does not answer.
	MemberUnknown MemberRole = "Unknown"
)

// DatabasesStatus says how the members of OVN's databases are. It is written by what makes them.
type DatabasesStatus struct {
	// wanted is how many members there shall be.
	Wanted int32 `json:"wanted"`
	// members are the nodes that have one of each database.
	// +optional
	// +listType=map
	// +listMapKey=node
	// +kubebuilder:validation:MaxItems=3
	Members []DatabaseMember `json:"members,omitempty"`
	// conflict says why no member is told anything; absent while there is no reason.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Conflict string `json:"conflict,omitempty"`
}

// DatabaseMember is a node with a member of each database.
type DatabaseMember struct {
	// node is the Node's name.
	// +kubebuilder:validation:MaxLength=253
	Node string `json:"node"`
	// northbound is what its server of the northbound database does.
	Northbound MemberRole `json:"northbound"`
	// southbound is the same of the southbound one.
	Southbound MemberRole `json:"southbound"`
	// message is why it does not answer.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`
}
