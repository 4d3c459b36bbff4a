package kind

// Indexes that one package has and others read.
const (
	// ServicesLeaving indexes, as "true", the Services that request to be the source of their pods outside. It is package egressip's.
	ServicesLeaving = "egress.source"
	// PodsByNode indexes pods by their node. It is package pod's.
	PodsByNode = "spec.nodeName"
	// PodsByHostPort indexes pods by their host ports, as facts.NodePort writes them. It is package pod's.
	PodsByHostPort = "spec.hostPorts"
	// ServicesByNodePort indexes services by their node ports, as facts.NodePort writes them. It is package pod's.
	ServicesByNodePort = "spec.nodePorts"
)
