// Package v1beta1 declares MultiNetworkPolicy, group k8s.cni.cncf.io, of the Network Plumbing Working Group. Its
// spec has the fields of a NetworkPolicy's. The group's own Go module requires Kubernetes 1.22, so Weft declares the
// type itself. The CustomResourceDefinition is the group's.
//
// +kubebuilder:object:generate=true
// +groupName=k8s.cni.cncf.io
package v1beta1
