package names

// Options of a Logical_Switch_Port, which ovn-northd copies to its Port_Binding (ovn-nb(5)).
const (
	// InterfaceVersion is the option with the UID of the port's pod. ovn-controller binds the port only to an Interface of
	// Open vSwitch with the same value in external_ids.
	InterfaceVersion = "iface-id-ver"
	// RequestedChassis is the option with the system-id of the only chassis that may bind the port.
	RequestedChassis = "requested-chassis"
)
