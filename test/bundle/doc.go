// Package bundle generates files for installers other than kubectl from the files that kubectl installs:
//
//	dist/install.yaml ──────────┐
//	config/manifests, samples ──┴─▶ bundle/manifests, metadata, tests; bundle.Dockerfile     OLM
//	config/monitoring/rules.yaml ─▶ dist/prometheus-rules.yaml                               Prometheus without its operator
//
// Names, rights and fields are taken only from there.
package bundle
