package v1alpha1

// MaxRelays is the maximum number of relays, and RelaysOfNode the maximum number that one node uses.
const (
	MaxRelays    = 64
	RelaysOfNode = 2
)

// Relays configures the relays of the southbound database.
type Relays struct {
	// count is the number of relays, each on its own node. One relay for each 100 nodes is a good number, and 2 is the
	// least that lets nodes go on without a gap when a relay is lost. With 0 there are no relays, and nodes read the
	// southbound database itself.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=64
	Count int32 `json:"count,omitempty"`
	// nodeSelector selects the nodes that may run a relay. Empty selects all nodes. Nodes without a member of the
	// databases are preferred. The relays of a zone run on the zone's nodes, and the other relays on nodes outside zones.
	// +optional
	// +kubebuilder:validation:MaxProperties=16
	// +kubebuilder:validation:XValidation:rule="self.all(k, k.matches('^([a-z0-9][-.a-z0-9]*/)?[^\\\\W_]([-.\\\\w]{0,61}[^\\\\W_])?$') && self[k].size() <= 63)",message="a key is not a label key such as team or example.com/team, or its value has more than 63 characters",reason=FieldValueInvalid
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`
}

// RelayState is the state of a relay.
//
// +kubebuilder:validation:Enum=Starting;Ready;Unavailable;Leaving
type RelayState string

const (
	// RelayStarting has no copy of the database yet. No node uses it.
	RelayStarting RelayState = "Starting"
	// RelayReady serves nodes.
	RelayReady RelayState = "Ready"
	// RelayUnavailable was ready before, and is not ready now. Its nodes use their other relay.
	RelayUnavailable RelayState = "Unavailable"
	// RelayLeaving is no longer wanted. It ends when no node uses it.
	RelayLeaving RelayState = "Leaving"
)

// InUse reports whether nodes are assigned to a relay in this state.
func (s RelayState) InUse() bool { return s == RelayReady || s == RelayUnavailable }

// RelayStatus is a relay of the southbound database. weft-operands writes it.
type RelayStatus struct {
	// node is the Node's name.
	// +kubebuilder:validation:MaxLength=253
	Node string `json:"node"`
	// address is the node's address at which the relay listens.
	Address IP `json:"address"`
	// state says whether nodes use the relay.
	State RelayState `json:"state"`
	// message says why the relay is not ready.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`
}
