// Package config embeds the manifests that weft-operands fills in and applies (package render). The others are for kustomize.
package config

import "embed"

// Operands contains the manifests of the network's workloads.
//
//go:embed operands/*.yaml operator/deployment.yaml agent/daemonset.yaml uninstall/daemonset.yaml
var Operands embed.FS

// AttachmentDefinitions is the CustomResourceDefinition of NetworkAttachmentDefinitions.
//
//go:embed crd/external/k8s.cni.cncf.io_network-attachment-definitions.yaml
var AttachmentDefinitions []byte

// MultiNetworkPolicies is the CustomResourceDefinition of MultiNetworkPolicies.
//
//go:embed crd/external/k8s.cni.cncf.io_multi-networkpolicies.yaml
var MultiNetworkPolicies []byte
