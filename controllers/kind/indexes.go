package kind

// Indexes of Services, which package service has and others read.
const (
	// ServicesByAddress indexes Services by the addresses that they are balanced on.
	ServicesByAddress = "balanced.addresses"
	// ServicesExposed indexes, as "true", the Services that have an address or port outside the cluster's own networks.
	ServicesExposed = "balanced.exposed"
)
