package kind

// ServicesByAddress indexes Services by the addresses that they are balanced on. Package service has the index; others read it.
const ServicesByAddress = "balanced.addresses"
