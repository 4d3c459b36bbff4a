// Package v1alpha1 is the API of Weft, group network.weft.dev.
//
//	ClusterNetwork "default"   what the user asks of the cluster's network; its status sums up the nodes
//	NodeNetwork <node name>    one per node: spec is written by the operator, status by the node's agent
//	PodNetworks                the VIF record, JSON in the pod annotation network.weft.dev/pod-networks
//
// Lengths are in bytes, prefixes in bits. Everything that can be refused without knowing other objects is refused by
// the CRD's own schema and CEL rules; there is no webhook whose absence could stop the network.
//
// +kubebuilder:object:generate=true
// +groupName=network.weft.dev
package v1alpha1
