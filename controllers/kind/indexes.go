package kind

// Indexes that one package has and others read.
const (
	// ServicesByAddress indexes Services by the addresses that they are balanced on. It is package service's.
	ServicesByAddress = "balanced.addresses"
	// ServicesExposed indexes, as "true", the Services that have an address or port outside the cluster's own networks. It is package
	// service's.
	ServicesExposed = "balanced.exposed"
	// ServicesLeaving indexes, as "true", the Services that request to be the source of their pods outside. It is package egressip's.
	ServicesLeaving = "egress.source"
	// PodsByNode indexes pods by their node. It is package pod's.
	PodsByNode = "spec.nodeName"
)
