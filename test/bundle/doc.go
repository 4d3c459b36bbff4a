// Package bundle makes what others than kubectl install, from what kubectl installs:
//
//	config/monitoring/rules.yaml ─▶ dist/prometheus-rules.yaml    Prometheus without its operator
package bundle
