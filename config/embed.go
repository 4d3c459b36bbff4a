// Package config embeds the manifests that weft-operands fills in and applies (package render). The others are for kustomize.
package config

import "embed"

// Operands contains the manifests of the network's workloads.
//
//go:embed operands/*.yaml operator/deployment.yaml agent/daemonset.yaml uninstall/daemonset.yaml
var Operands embed.FS

// External contains the CustomResourceDefinitions of others' kinds that Weft reads.
//
//go:embed crd/external/*.yaml
var External embed.FS
