// Package bundle makes what others than kubectl install, from what kubectl installs:
//
//	dist/install.yaml ──────────┐
//	config/manifests, samples ──┴─▶ bundle/manifests, metadata, tests; bundle.Dockerfile     OLM
//	config/monitoring/rules.yaml ─▶ dist/prometheus-rules.yaml                               Prometheus without its operator
//
// Names, rights and fields are taken from there and written nowhere else.
package bundle
