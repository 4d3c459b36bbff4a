package v1alpha1

// FloatingResource is the extended resource that a pod requests so that kube-scheduler calls the extender for it. No
// node has it, and kube-scheduler ignores it otherwise.
const FloatingResource = GroupName + "/floating-ip"

// FloatingGate is the scheduling gate of a pod that gets its addresses before it is scheduled.
const FloatingGate = GroupName + "/floating-ip"

// FloatingIPsAnnotation of a pod lists the addresses that the extender claimed for it, separated by commas. The
// Binding writes it, so that the operator finds them even if its cache of FloatingIPs is behind.
const FloatingIPsAnnotation = GroupName + "/floating-ips"

// PodFloatingIP is the condition of an unscheduled pod whose addresses were not available. On a gated pod the operator
// says what it lacks, and writes True when it removes the gate. On a pod without the gate the extender writes it when an
// address may be available, because kube-scheduler tries a pod again when it changes.
const PodFloatingIP = GroupName + "/FloatingIP"

// Reasons of PodFloatingIP.
const (
	// ReasonAddressUnavailable: no node carries an address that the gated pod can get. Of PodRequestsGranted: the IPPool
	// cannot give the pod an address, or the pod cannot have the address that it requests.
	ReasonAddressUnavailable = "AddressUnavailable"
	// ReasonAddressFreed: an address that the pod can get was released.
	ReasonAddressFreed = "AddressFreed"
)
