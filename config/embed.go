// Package config holds the manifests that the operator applies by itself, filled in by package operand. The others are for kustomize.
package config

import "embed"

// Operands are the workloads that make a network.
//
//go:embed operands/*.yaml operator/deployment.yaml agent/daemonset.yaml uninstall/daemonset.yaml
var Operands embed.FS
