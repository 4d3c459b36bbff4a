// Package v1alpha1 is the API of Weft, group network.weft.dev.
//
//	ClusterNetwork "default"   the desired state of the network; its status sums up the nodes
//	NodeNetwork <node name>    a node's part of the network; the operator writes spec and the node's agent writes status
//	PodNetworks                the VIF record, JSON in the pod annotation network.weft.dev/pod-networks
//
// Lengths are in bytes, prefixes in bits. The CRDs' schemas and CEL rules refuse everything that is invalid
// regardless of other objects. There is no webhook whose absence could stop the network.
//
// +kubebuilder:object:generate=true
// +groupName=network.weft.dev
package v1alpha1
